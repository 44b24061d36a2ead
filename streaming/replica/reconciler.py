"""What a replica does all day: bring its switches to where they should be, and take over if it must.

One loop, in one thread. It looks at what is wanted, changes what differs, tends the query, and says
what is on. A secondary whose primary has fallen becomes the primary in the middle of it: the watch takes
over, in a thread of its own, and the loop goes on with other switches.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from ft_policies.errors import TransientError
from ft_policies.tiers import PRIMARY, SECONDARY, Switches, Tier
from resources.clock import SYSTEM_CLOCK
from resources.control.records import ReplicaState, Slot
from resources.control.store import ControlStore
from resources.patience import patiently
from streaming import priority
from streaming.gate import Gate, GateState
from streaming.query.catch_up import CatchUp, last_decided
from streaming.query.query import RunningQuery
from streaming.query.query_swap import Queries
from streaming.replica.failover import PrimaryWatch, Promotion
from streaming.replica.heartbeat import Pulse
from streaming.replica.host import SpareCapacityGuard
from streaming.replica.output import Output
from streaming.sampling import Sampler
from streaming.spec import ReplicaSpec
from streaming.state.standby import Standby

HURRY_SECONDS = 0.05
TEND_SECONDS = 0.25

log = logging.getLogger(__name__)


class Ending(StrEnum):
    """How a replica's life ended."""

    STOPPED = "stopped"
    LOST = "lost"


@dataclass
class Reconciler:
    """The switches of one replica; `token` is the one to write by.

    `led` is set when it is known that this replica is primary and level.
    """

    spec: ReplicaSpec
    store: ControlStore
    pulse: Pulse
    gate: Gate
    output: Output
    sampler: Sampler
    watch: PrimaryWatch
    token: Callable[[], int]
    spare: SpareCapacityGuard | None
    stop_requested: threading.Event
    wake: threading.Event
    standby: Standby
    queries: Queries
    led: threading.Event = field(init=False, default_factory=threading.Event)
    _is_primary: bool = field(init=False)
    _promotion: Promotion | None = None
    _gate_open: bool = False
    _generation: int = 0
    _catch_up: CatchUp | None = None

    def __post_init__(self) -> None:
        self._is_primary = self.pulse.row.slot is Slot.PRIMARY

    def run(self) -> Ending:
        """Reconcile until told to stop or the place is lost; an error that stays is raised."""
        if self._is_primary and not self._become_primary():
            return self._ending()
        while not self.is_over():
            try:
                self._reconcile()
            except TransientError as error:
                log.warning("not all switches are where they should be yet: %s", error)
            self._tend()
            self._report()
            hurry = self._gate_open and not self._is_level
            self.wake.wait(HURRY_SECONDS if hurry else TEND_SECONDS)
            self.wake.clear()
        self._end()
        return self._ending()

    def is_over(self) -> bool:
        """Whether this replica has no place any more, or is asked to leave it."""
        asked = self.stop_requested.is_set() or not self.pulse.row.desired.deploy
        return asked or self.pulse.lost.is_set()

    def _reconcile(self) -> None:
        self._generation = self.pulse.row.generation
        if not self._is_primary and self.watch.promotion is not None:
            self._lead(self.watch.promotion)
        if self.pulse.row.slot is Slot.PRIMARY and not self._is_primary:
            return  # the takeover has happened, and the watch is about to learn its token
        wanted = self._wanted()
        # A query that processes reads by itself; one that also syncs is about to be held, or was.
        receive = wanted.receive and (wanted.sync or not wanted.process)
        self.standby.turn_on(sync=wanted.sync, receive=receive)
        if wanted.process:
            self._process()
        elif wanted.receive and wanted.sync:
            self._hold()
        else:
            self._rest(syncs=wanted.sync)
        self.output.send(wanted=wanted.send, timed=self._is_primary)
        if self._is_primary and self.queries.current is not None:
            self.output.ship(self.queries.current)
        self.standby.turn_off(sync=not wanted.sync, receive=not receive)

    def _wanted(self) -> Switches:
        """What is desired; a secondary on spare capacity gives way while the host is busy."""
        if self._is_primary:
            return PRIMARY
        desired = self.pulse.row.desired
        if self.spare is not None and desired.process and self.spare.is_paused(self._queued):
            return SECONDARY[Tier.PASSIVE_STANDBY_COLD]
        return desired

    def _become_primary(self) -> bool:
        while not self.is_over():
            if patiently(self.pulse.take_lease, what="taking the lease", give_up=self.is_over):
                log.info("primary with token %s", self.pulse.token())
                return True
            self.stop_requested.wait(HURRY_SECONDS)
        return False

    def _lead(self, promotion: Promotion) -> None:
        """Be the primary from now on: the watch has taken lease and slot."""
        fallen = promotion.fallen
        log.info("took over from %s: %s", fallen.primary or "nobody", fallen.reason)
        goes_on = self.output.is_open and self._is_level  # it was sending all along
        self._promotion = replace(promotion, goes_on=goes_on)
        self._is_primary = True
        priority.restore()
        self._gate_open = False  # to be opened anew, with our token

    def _process(self) -> None:
        """Let the query run; a secondary that does not have one starts it on the newest state."""
        wired = self.queries.current is not None
        since = SYSTEM_CLOCK.monotonic()
        if self.queries.adopt_fresh():
            wired = False
        elif self.queries.current is None:
            state = self.standby.state(give_up=self.is_over)
            since = SYSTEM_CLOCK.monotonic()  # reading the state is a step of its own
            self.queries.start(*state)
        if not self._gate_open:
            start = self.queries.epoch
            self._set_gate(open_=True)
            goal = self._last_decided()
            self._catch_up = CatchUp(goal=goal, start=start, wired=wired, since=since)
        self.queries.drop_fresh()

    def _hold(self) -> None:
        """Keep a query ready behind the gate, on the newest state; the old one goes last."""
        self._set_gate(open_=False)
        synced = self.standby.synced
        if synced is not None and self.queries.renew(synced):
            self.standby.forget_input(self.queries.epoch or 0)

    def _rest(self, *, syncs: bool) -> None:
        """Process no more; what a query has come to is kept until another state is synced."""
        self._set_gate(open_=False)
        if not syncs or self.standby.synced is not None:
            self.queries.stop()

    def _set_gate(self, *, open_: bool) -> None:
        if self._gate_open != open_ and not self.pulse.lost.is_set():
            self.gate.set(GateState(open=open_, token=self.token()))
            self._gate_open = open_

    def _tend(self) -> None:
        self.sampler.tend(secondary=not self._is_primary)
        self.queries.tend(self.sampler)
        query = self.queries.current
        if query is not None and self._catch_up is not None and self._gate_open:
            self._see_progress(query, self._catch_up)
        shown, synced = self.standby.take_shown(), self.standby.synced
        self.queries.remove_unused(shown=shown, keep=[] if synced is None else [synced.checkpoint])

    def _see_progress(self, query: RunningQuery, catch_up: CatchUp) -> None:
        sent = self.output.is_open or not self._is_primary
        if catch_up.see(query, self.sampler, sent=sent):
            if self._promotion is not None:
                self._promotion.level(self.store, self.sampler)
            catch_up.tell_rows(query, self.store, self.sampler)
            self.standby.forget_input(catch_up.goal)

    @property
    def _is_level(self) -> bool:
        return self._gate_open and self._catch_up is not None and self._catch_up.level

    def _report(self) -> None:
        if self._is_primary:
            state = ReplicaState.RUNNING if self._is_level else ReplicaState.STARTING
        else:
            gives_way = self.spare is not None and self.spare.paused
            paused = gives_way and self.pulse.row.desired.process
            state = ReplicaState.PAUSED if paused else ReplicaState.RUNNING
        self.pulse.say(
            epoch=self._epoch(),
            state=state,
            observed=self._observed(),
            observed_generation=self._generation,
        )
        if self._is_primary and self._is_level:
            self.led.set()

    def _observed(self) -> Switches:
        """What is really on: a switch counts when it does what it is for."""
        query = self.queries.current
        if self._is_primary:
            process = query is not None and not query.trying_again
            return Switches(deploy=True, receive=True, process=process, send=self.output.is_open)
        works = query is not None and not query.trying_again
        synced = self.standby.synced is not None
        reads = works and self._gate_open
        return Switches(
            deploy=True,
            sync=synced,
            receive=reads or (self.standby.received and (works or not synced)),
            process=works and self._is_level,
            send=self.output.is_open,
        )

    def _queued(self) -> int:
        """How many epochs wait; none before there is anything that they could wait for."""
        done = self._epoch()
        return 0 if done is None else self._last_decided() - done

    def _epoch(self) -> int | None:
        """How far this replica's state is; what a primary cannot send is not done."""
        if self._is_primary and self.output.sender.kept:
            return self.output.sender.kept[0] - 1
        if self.queries.current is not None:
            return self.queries.epoch
        return None if self.standby.synced is None else self.standby.synced.epoch

    def _last_decided(self) -> int:
        return last_decided(self.store, self.spec.stream.name, self.is_over)

    def _end(self) -> None:
        self.watch.stop()
        self.standby.turn_off(sync=True, receive=True)
        lost = self.pulse.lost.is_set()
        if not lost:
            self.pulse.say(state=ReplicaState.STOPPING)
            self._set_gate(open_=False)
            if self._is_primary and self.queries.current is not None:
                self.queries.current.drain(self.pulse.lost.is_set)
        self.queries.stop()
        if not lost:
            self.output.finish()

    def _ending(self) -> Ending:
        return Ending.LOST if self.pulse.lost.is_set() else Ending.STOPPED
