"""Looking at a stream: what its primary says of itself, and what others see of it."""

from dataclasses import dataclass
from itertools import takewhile

from ft_policies.health import PrimarySeen, Process, Verdict
from ft_policies.recovery import Observed
from resources.control.records import (
    DesiredState,
    Epoch,
    Lease,
    LedgerEntry,
    ReplicaRow,
    ReplicaState,
    Slot,
)
from streaming.launching import process_of
from streaming.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSeen:
    """Everything that one look at a stream shows."""

    name: str
    at: float
    wanted: bool
    verdict: Verdict
    primary: ReplicaRow | None
    last_primary: ReplicaRow | None
    lease: Lease | None
    epoch: Epoch | None
    committed: LedgerEntry | None
    failures_in_a_row: int

    def observed(self) -> Observed:
        """The part of it that the recover playbook decides on."""
        return Observed(
            verdict=self.verdict,
            primary=None if self.primary is None else self.primary.id,
            token=0 if self.lease is None else self.lease.token,
            failures_in_a_row=self.failures_in_a_row,
            last_failure="" if self.last_primary is None else self.last_primary.reason,
        )


def observe(world: World, name: str) -> StreamSeen:
    """Look at a stream now."""
    declared = world.project.stream(name)
    store = world.store
    row = store.streams.get(name)
    primaries = [r for r in store.replicas.of(name, live=False) if r.slot is Slot.PRIMARY]
    primary = next((r for r in primaries if not r.state.ended), None)
    at = store.now()
    wanted = row is not None and row.desired is DesiredState.RUNNING
    return StreamSeen(
        name=name,
        at=at,
        wanted=wanted,
        verdict=declared.supervision.policy().judge(
            wanted=wanted, primary=None if primary is None else _seen(primary, primaries, at)
        ),
        primary=primary,
        last_primary=primaries[0] if primaries else None,
        lease=store.leases.get(name),
        epoch=store.epochs.last(name),
        committed=store.ledger.last(name),
        failures_in_a_row=0 if row is None else _failures(primaries, since=row.changed_at),
    )


def _seen(primary: ReplicaRow, primaries: list[ReplicaRow], at: float) -> PrimarySeen:
    process = process_of(primary)
    return PrimarySeen(
        id=primary.id,
        process=Process.UNKNOWN
        if process is None
        else (Process.RUNNING if process.is_alive() else Process.GONE),
        registered_age=at - primary.registered_at,
        heartbeat_age=None if primary.heartbeat_at is None else at - primary.heartbeat_at,
        progress_age=None if primary.progressed_at is None else at - primary.progressed_at,
        processing=primary.observed.process,
        level=primary.state is not ReplicaState.STARTING,
        given_up_before=_given_up_at_the_same_epoch(primary, primaries),
    )


def _given_up_at_the_same_epoch(primary: ReplicaRow, primaries: list[ReplicaRow]) -> int:
    """Count the primaries before this one that were fenced no further than it has come."""
    reached = -1 if primary.epoch is None else primary.epoch

    def stood_here(row: ReplicaRow) -> bool:
        return row.state is ReplicaState.FENCED and (row.epoch is None or row.epoch >= reached)

    return len(list(takewhile(stood_here, (row for row in primaries if row.state.ended))))


def _failures(primaries: list[ReplicaRow], *, since: float) -> int:
    """Count the failures in a row at the same epoch.

    One that made progress is another failure, not the same again; and a changed declaration or a
    start by hand is a new beginning.
    """
    ended = [row for row in primaries if row.state.ended and row.registered_at >= since]

    def failed_there(row: ReplicaRow) -> bool:
        return row.state is ReplicaState.FAILED and row.epoch == ended[0].epoch

    return len(list(takewhile(failed_there, ended)))
