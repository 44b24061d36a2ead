"""The processing of a replica: its query behind the gate, held ready, catching up or caught up."""

from dataclasses import dataclass

from holdfast.ft_policies.tiers import Switches
from holdfast.resources.clock import SYSTEM_CLOCK, Clock
from holdfast.resources.control_store.store import ControlStore
from holdfast.streaming.gate import Gate, GateState
from holdfast.streaming.metrics import Sampler
from holdfast.streaming.query.catch_up import CatchUp, last_committed, last_decided
from holdfast.streaming.query.query_swap import QuerySwap
from holdfast.streaming.replica.heartbeat import Departure
from holdfast.streaming.replica.states import Processing
from holdfast.streaming.spec import ReplicaSpec
from holdfast.streaming.state.standby import Standby


@dataclass
class Processor:
    """Makes the query do what the switches ask for; `state` is what it does now."""

    spec: ReplicaSpec
    store: ControlStore
    departure: Departure
    gate: Gate
    standby: Standby
    queries: QuerySwap
    sampler: Sampler
    state: Processing = Processing.STOPPED
    clock: Clock = SYSTEM_CLOCK
    _catch_up: CatchUp | None = None

    def reconcile(self, desired: Switches) -> Processing:
        """Process, hold a query ready, or stop; returns what the query does then."""
        if desired.process:
            self._process()
        elif desired.receive and desired.sync:
            self._hold_ready()
        else:
            self._stop_processing(syncs=desired.sync)
        return self.state

    def poll(self, *, sent: bool) -> bool:
        """Restart or sample the query; `True` for the one call in which it has caught up.

        A primary has not caught up before its output is `sent`.
        """
        self.queries.poll(self.sampler)
        query, catch_up = self.queries.current, self._catch_up
        if query is None or catch_up is None or self.state is not Processing.CATCHING_UP:
            return False
        if not catch_up.observe(query, self.sampler, sent=sent):
            return False
        self.state = Processing.CAUGHT_UP
        return True

    @property
    def has_committed(self) -> bool:
        """Whether a primary that has caught up has committed a new epoch: then its stream is back."""
        return self._catch_up is not None and self._catch_up.has_committed

    def poll_commit(self) -> int | None:
        """The first epoch that this primary has committed since then, in the one call after it was committed."""
        query, catch_up = self.queries.current, self._catch_up
        if query is None or catch_up is None or self.state is not Processing.CAUGHT_UP:
            return None
        return catch_up.new_epoch if catch_up.observe_commit(query, self.sampler) else None

    def record_caught_up(self) -> None:
        """Record how many rows were replayed, and remove their prefetched input."""
        query, catch_up = self.queries.current, self._catch_up
        if query is not None and catch_up is not None:
            catch_up.record_rows(query, self.store, self.sampler)
            self.standby.forget_input(catch_up.goal)

    def remove_unused(self) -> None:
        """Remove the checkpoints that no query needs."""
        shown, snapshot = self.standby.take_shown(), self.standby.snapshot
        keep = [] if snapshot is None else [snapshot.checkpoint]
        self.queries.remove_unused(shown=shown, keep=keep)

    @property
    def is_working(self) -> bool:
        """Whether there is a query, and it does not wait for a restart."""
        query = self.queries.current
        return query is not None and not query.is_retrying

    def reopen_gate(self) -> None:
        """Open the gate again in the next `reconcile`, with the token that is valid then."""
        if self.state.gate_is_open:
            self.state = Processing.HELD

    def finish(self, *, drain: bool) -> None:
        """Shut the gate; with `drain`, wait until the query has finished its last epoch."""
        self._shut_gate(Processing.STOPPED)
        if drain and self.queries.current is not None:
            self.queries.current.drain(self.departure.heartbeat.lost.is_set)

    def stop(self) -> None:
        """Stop all queries at once."""
        self.queries.stop()

    def _process(self) -> None:
        """Open the gate; without a query, start one on the newest state."""
        wired = self.queries.current is not None
        since = self.clock.monotonic()
        if self.queries.adopt_replacement():
            wired = False
        elif self.queries.current is None:
            state = self.standby.newest_state(give_up=self.departure.is_due)
            since = self.clock.monotonic()  # reading the state is another step
            self.queries.start(*state)
        if not self.state.gate_is_open:
            name, start = self.spec.stream.name, self.queries.epoch
            new_epoch = last_committed(self.store, name, self.departure.is_due) + 1
            self._open_gate()
            goal = last_decided(self.store, name, self.departure.is_due)
            self._catch_up = CatchUp(
                goal=goal,
                start=start,
                wired=wired,
                since=since,
                new_epoch=new_epoch,
                clock=self.clock,
            )
        elif self.gate.get().token != self.departure.heartbeat.lease.token:
            self._set_gate(open_=True)  # another replica has become primary
        self.queries.drop_replacement()

    def _hold_ready(self) -> None:
        """Keep a query ready behind the shut gate, on the newest state."""
        self._shut_gate(Processing.HELD)
        snapshot = self.standby.snapshot
        if snapshot is not None and self.queries.replace_with(snapshot):
            self.standby.forget_input(self.queries.epoch or 0)

    def _stop_processing(self, *, syncs: bool) -> None:
        """Shut the gate; a query stays until a snapshot that replaces its state is synced."""
        self._shut_gate(Processing.STOPPED)
        if not syncs or self.standby.snapshot is not None:
            self.queries.stop()

    def _open_gate(self) -> None:
        if self._set_gate(open_=True):
            self.state = Processing.CATCHING_UP

    def _shut_gate(self, state: Processing) -> None:
        if self.state.gate_is_open and not self._set_gate(open_=False):
            return
        self.state = state

    def _set_gate(self, *, open_: bool) -> bool:
        """Set the gate; `False` if the replica has lost its place: then the gate stays shut."""
        heartbeat = self.departure.heartbeat
        if heartbeat.lost.is_set():
            return False
        self.gate.set(GateState(open=open_, token=heartbeat.lease.token))
        return True
