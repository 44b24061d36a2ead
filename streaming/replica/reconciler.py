"""The main loop of a replica: reconcile its switches with the desired ones, and act on a takeover.

One loop, in one thread. It reads what is desired, changes what differs, polls the query, and reports
what is on. A secondary whose primary has failed becomes the primary within this loop: the monitor
takes over, in a thread of its own, and the loop continues with other switches.
"""

import logging
import threading
from dataclasses import dataclass, field, replace
from enum import StrEnum

from holdfast.ft_policies.errors import TransientError
from holdfast.ft_policies.tiers import OFF, PRIMARY, SECONDARY, Switches, Tier
from holdfast.resources import priority
from holdfast.resources.control_store.records import ReplicaState, Slot
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.retry import retry_transient
from holdfast.streaming.metrics import Sampler
from holdfast.streaming.query.catch_up import last_decided
from holdfast.streaming.replica.failover import PrimaryMonitor, Promotion
from holdfast.streaming.replica.heartbeat import Departure, Heartbeat
from holdfast.streaming.replica.host import SpareCapacityGuard
from holdfast.streaming.replica.output import Sending
from holdfast.streaming.replica.processor import Processor
from holdfast.streaming.replica.states import Processing, Role
from holdfast.streaming.state.standby import Standby

HURRY_SECONDS = 0.05
POLL_SECONDS = 0.25

log = logging.getLogger(__name__)


class Ending(StrEnum):
    """How a replica ended."""

    STOPPED = "stopped"
    """A stop was requested."""
    LOST = "lost"
    """Another replica has its place."""


@dataclass
class Reconciler:
    """The switches of one replica, in three parts: `standby`, `processor` and `sending`.

    `leading` is set once this replica is primary, has caught up and has committed a new epoch.
    """

    store: ControlStore
    heartbeat: Heartbeat
    departure: Departure
    monitor: PrimaryMonitor
    standby: Standby
    processor: Processor
    sending: Sending
    sampler: Sampler
    spare: SpareCapacityGuard | None
    wake: threading.Event
    leading: threading.Event = field(init=False, default_factory=threading.Event)
    role: Role = field(init=False)
    _promotion: Promotion | None = None
    _generation: int = 0

    def __post_init__(self) -> None:
        is_primary = self.heartbeat.row.slot is Slot.PRIMARY
        self.role = Role.TAKING_OVER if is_primary else Role.STANDBY

    def run(self) -> Ending:
        """Reconcile until the replica has to leave; a permanent error is raised."""
        if self.role is Role.TAKING_OVER and not self._take_lease():
            return self._ending()
        while not self.departure.is_due():
            try:
                self._reconcile()
            except TransientError as error:
                log.warning("switches not reconciled, trying again: %s", error)
            self._poll()
            self._report()
            hurry = self.processor.state is Processing.CATCHING_UP or self._is_awaiting_commit()
            self.wake.wait(HURRY_SECONDS if hurry else POLL_SECONDS)
            self.wake.clear()
        self._leave()
        return self._ending()

    def _take_lease(self) -> bool:
        """Wait for the lease, as a replica launched as primary; `False` if it has to leave before."""
        lease = self.heartbeat.lease
        while not self.departure.is_due():
            if retry_transient(lease.take, what="taking the lease", give_up=self.departure.is_due):
                log.info("became primary with token %s", lease.token)
                self.role = Role.PRIMARY
                return True
            self.departure.stop_requested.wait(HURRY_SECONDS)
        return False

    def _reconcile(self) -> None:
        self._generation = self.heartbeat.row.generation
        if self.role is not Role.PRIMARY and self.monitor.promotion is not None:
            self._take_over(self.monitor.promotion)
        if self.role is not Role.PRIMARY and self.heartbeat.row.slot is Slot.PRIMARY:
            self.role = Role.TAKING_OVER  # the monitor is about to learn the token
            return
        desired = self._choose_switches()
        self.standby.reconcile(desired)
        self.processor.reconcile(desired)
        self.sending.reconcile(desired, self.role)
        if self.role is Role.PRIMARY and self.processor.queries.current is not None:
            self.sending.ship(self.processor.queries.current)
        self.standby.release(desired)

    def _take_over(self, promotion: Promotion) -> None:
        """Act as primary from now on: the monitor has taken lease and slot."""
        failed = promotion.failed
        log.info("took over from %s: %s", failed.primary or "no live primary", failed.reason)
        was_sending = self.sending.is_open and self.processor.state is Processing.CAUGHT_UP
        self._promotion = replace(promotion, was_sending=was_sending)
        self.role = Role.PRIMARY
        priority.restore()
        self.processor.reopen_gate()  # with this replica's own token

    def _choose_switches(self) -> Switches:
        """The switches to reconcile; a secondary on spare capacity gives way while the host is busy."""
        if self.role is Role.PRIMARY:
            return PRIMARY
        desired = self.heartbeat.row.desired
        if self.spare is not None and desired.process and self.spare.is_paused(self._count_queued):
            return SECONDARY[Tier.PASSIVE_STANDBY_COLD]
        return desired

    def _poll(self) -> None:
        is_primary = self.role is Role.PRIMARY
        self.sampler.sample_machine(secondary=not is_primary)
        if self.processor.poll(sent=self.sending.is_open or not is_primary):
            self.processor.record_caught_up()
        epoch = self.processor.poll_commit() if is_primary else None
        if epoch is not None and self._promotion is not None:
            self._promotion.record_commit(self.store, self.sampler, epoch)
        self.processor.remove_unused()

    def _report(self) -> None:
        self.heartbeat.report(
            epoch=self._epoch(),
            state=self._state(),
            observed=self._observe_switches(),
            observed_generation=self._generation,
        )
        if self._is_leading():
            self.leading.set()

    def _is_leading(self) -> bool:
        caught_up = self.processor.state is Processing.CAUGHT_UP
        return self.role is Role.PRIMARY and caught_up and self.processor.has_committed

    def _is_awaiting_commit(self) -> bool:
        return self.role is Role.PRIMARY and not self.processor.has_committed

    def _state(self) -> ReplicaState:
        if self.role is Role.PRIMARY:
            return ReplicaState.RUNNING if self._is_leading() else ReplicaState.STARTING
        gives_way = self.spare is not None and self.spare.paused
        paused = gives_way and self.heartbeat.row.desired.process
        return ReplicaState.PAUSED if paused else ReplicaState.RUNNING

    def _observe_switches(self) -> Switches:
        """The switches that are in effect, not only turned on."""
        works, sends = self.processor.is_working, self.sending.is_open
        if self.role is Role.PRIMARY:
            return Switches(deploy=True, receive=True, process=works, send=sends)
        standby, processing = self.standby.observed, self.processor.state
        synced = standby.snapshot is not None
        reads = works and processing.gate_is_open
        return Switches(
            deploy=True,
            sync=synced,
            receive=reads or (standby.has_all_input and (works or not synced)),
            process=works and processing is Processing.CAUGHT_UP,
            send=sends,
        )

    def _count_queued(self) -> int:
        """How many epochs wait; 0 before there is a state to apply them to."""
        done = self._epoch()
        if done is None:
            return 0
        stream = self.heartbeat.row.stream
        return last_decided(self.store, stream, self.departure.is_due) - done

    def _epoch(self) -> int | None:
        """The last epoch in this replica's state; an epoch that a primary cannot send does not count."""
        if self.role is Role.PRIMARY and (held_back := self.sending.sender.held_back):
            return held_back[0] - 1
        if self.processor.queries.current is not None:
            return self.processor.queries.epoch
        snapshot = self.standby.snapshot
        return None if snapshot is None else snapshot.epoch

    def _leave(self) -> None:
        was_primary, self.role = self.role is Role.PRIMARY, Role.LEAVING
        self.monitor.stop()
        self.standby.release(OFF)
        lost = self.heartbeat.lost.is_set()
        if not lost:
            self.heartbeat.report(state=ReplicaState.STOPPING)
            self.processor.finish(drain=was_primary)
        self.processor.stop()
        if not lost:
            self.sending.finish()

    def _ending(self) -> Ending:
        return Ending.LOST if self.heartbeat.lost.is_set() else Ending.STOPPED
