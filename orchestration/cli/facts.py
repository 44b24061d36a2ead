"""The facts of `holdfast status`: one look at a stream, as plain values with stable names."""

from dataclasses import asdict, dataclass

from holdfast.ft_policies.tiers import Switches
from holdfast.observation.coverage import coverage_of
from holdfast.observation.status import StreamSeen, observe
from holdfast.orchestration.cli.changing import ChangeFacts, change_of
from holdfast.orchestration.playbooks.launch import written
from holdfast.resources.control_store.records import (
    Incident,
    ReplicaRow,
    RestoreRow,
    Slot,
    TierChange,
)
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.project import Project

FRESH_SECONDS = 60.0
RATE_EPOCHS = 10
SHOWN_CHANGES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFacts:
    """A live replica; its lag is in epochs, none if it has no state of its own."""

    id: str
    slot: str
    state: str
    health: str
    reason: str
    host: str
    pid: int | None
    desired: list[str]
    observed: list[str]
    epoch: int | None
    lag_epochs: int | None
    heartbeat_age_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotAge:
    """The newest snapshot."""

    id: str
    epoch: int
    age_seconds: float
    total_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFacts:
    """Everything that the table of streams shows; what is not known is `None`."""

    stream: str
    tier: str
    covered_tier: str
    tier_held: bool
    tier_reason: str
    change: ChangeFacts | None
    tier_history: list[TierChange]
    last_restore: RestoreRow | None
    not_rolled_out: list[str]
    """What its file says otherwise than what it runs by."""
    wanted: bool
    health: str
    reason: str
    failed: bool
    replicas: list[ReplicaFacts]
    epoch_committed: int | None
    epoch_decided: int | None
    lag_epochs: int
    lag_rows: int | None
    rate_rows_per_second: float | None
    state_rows: int | None
    state_bytes: int | None
    snapshot: SnapshotAge | None
    recovery_time_seconds: float
    guarantee: str
    incidents: list[Incident]


def look(world: Project, name: str) -> StreamFacts:
    """Look at one stream now."""
    seen = observe(world, name)
    declared = world.config.stream(name)
    coverage = coverage_of(seen)
    samples = _fresh(world, seen)
    committed = None if seen.committed is None else seen.committed.epoch
    decided = None if seen.epoch is None else seen.epoch.epoch
    return StreamFacts(
        stream=name,
        tier=seen.tier.value,
        covered_tier=seen.covered.value,
        tier_held=coverage.covered,
        tier_reason=coverage.reason,
        change=change_of(world, seen),
        tier_history=world.store.tiers.history(name, limit=SHOWN_CHANGES),
        last_restore=world.store.restores.newest(name),
        not_rolled_out=_not_rolled_out(world, seen),
        wanted=seen.wanted,
        health=seen.verdict.health.value,
        reason=seen.verdict.reason,
        failed=seen.verdict.health.failed,
        replicas=[_replica(row, seen) for row in (seen.primary, seen.secondary) if row],
        epoch_committed=committed,
        epoch_decided=decided,
        lag_epochs=0 if decided is None else decided - (-1 if committed is None else committed),
        lag_rows=_lag_rows(world, seen, samples.get(SampleName.LAG_ROWS)),
        rate_rows_per_second=_rate(world, seen),
        state_rows=_whole(samples.get(SampleName.STATE_ROWS)),
        state_bytes=_whole(samples.get(SampleName.STATE_BYTES)),
        snapshot=_snapshot(world, name, seen.at),
        recovery_time_seconds=declared.objective.recovery_time,
        guarantee=declared.objective.guarantee.value,
        incidents=world.store.incidents.of(name),
    )


def _not_rolled_out(world: Project, seen: StreamSeen) -> list[str]:
    row = world.store.streams.get(seen.name)
    if row is None or not seen.wanted:
        return []
    now = written(world.config.resolve_paths(world.config.stream(seen.name)))
    return sorted(key for key in now if now[key] != row.declaration.get(key))


def _replica(row: ReplicaRow, seen: StreamSeen) -> ReplicaFacts:
    own = seen.secondary_verdict if row.slot is Slot.SECONDARY else seen.verdict
    verdict = own or seen.verdict
    return ReplicaFacts(
        id=row.id,
        slot=row.slot.value,
        state=row.state.value,
        health=verdict.health.value,
        reason=verdict.reason,
        host=row.host,
        pid=row.pid,
        desired=_names(row.desired),
        observed=_names(row.observed),
        epoch=row.epoch,
        lag_epochs=_lag_epochs(row, seen),
        heartbeat_age_seconds=None if row.heartbeat_at is None else seen.at - row.heartbeat_at,
    )


def _lag_epochs(row: ReplicaRow, seen: StreamSeen) -> int | None:
    if row.epoch is None or seen.epoch is None:
        return None
    return max(seen.epoch.epoch - row.epoch, 0)


def _names(switches: Switches) -> list[str]:
    return [name for name, is_on in asdict(switches).items() if is_on]


def _fresh(world: Project, seen: StreamSeen) -> dict[SampleName, float]:
    """What the live primary measured lately: an old figure would be taken for a present one."""
    if seen.primary is None:
        return {}
    latest = world.store.samples.latest(seen.name, replica=seen.primary.id)
    return {
        name: sample.value
        for name, sample in latest.items()
        if seen.at - sample.at <= FRESH_SECONDS
    }


def _rate(world: Project, seen: StreamSeen) -> float | None:
    """Rows a second that the last few epochs took in, while somebody takes them in.

    Spark's own figure counts from trigger to trigger, and jumps with each look for input.
    """
    if seen.epoch is None or seen.primary is None or seen.verdict.health.failed:
        return None
    number = seen.epoch.epoch
    epochs = world.store.epochs.between(seen.name, max(number - RATE_EPOCHS, 0), number)
    elapsed = epochs[-1].decided_at - epochs[0].decided_at
    if elapsed <= 0 or seen.at - epochs[-1].decided_at > FRESH_SECONDS:
        return None
    return sum(epoch.rows for epoch in epochs[1:]) / elapsed


def _lag_rows(world: Project, seen: StreamSeen, waiting: float | None) -> int | None:
    """Rows that are decided and not committed, and those that no epoch has yet, if that is known."""
    if seen.epoch is None or waiting is None:
        return None
    first = 0 if seen.committed is None else seen.committed.epoch + 1
    decided = world.store.epochs.between(seen.name, first, seen.epoch.epoch)
    return sum(epoch.rows for epoch in decided) + int(waiting)


def _snapshot(world: Project, name: str, now: float) -> SnapshotAge | None:
    newest = world.store.snapshots.newest(name)
    if newest is None:
        return None
    return SnapshotAge(
        id=newest.id,
        epoch=newest.epoch,
        age_seconds=now - newest.created_at,
        total_bytes=newest.total_bytes,
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
