"""The facts of `holdfast status`: plain values with stable names, observed now."""

from dataclasses import asdict, dataclass, replace

from holdfast.ft_policies.playbooks.base import step_fields
from holdfast.ft_policies.playbooks.recover.decide import plan_recovery
from holdfast.ft_policies.tiers import Switches
from holdfast.observation.coverage import coverage_of
from holdfast.observation.lag import current_lag
from holdfast.observation.playbook_runs import (
    Change,
    find_current_change,
    recent_changes,
    step_subject,
)
from holdfast.observation.status import StreamStatus, observe_stream
from holdfast.orchestration.playbooks.launch import to_json
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
PLANNED = "planned"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFacts:
    """A live replica; `lag_epochs` is `None` for a replica without a state of its own."""

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
class StepFacts:
    """A step of a change: `planned`, then `intent` while it runs, then `done` or `failed`."""

    step: str
    about: str
    phase: str
    seconds: float | None
    failure: str = ""

    @property
    def is_planned(self) -> bool:
        """Whether it has not begun."""
        return self.phase == PLANNED


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFacts:
    """A change of the replicas under way: the steps taken so far, then the planned ones."""

    playbook: str
    run: str
    age_seconds: float
    steps: list[StepFacts]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFacts:
    """Everything that the table of streams shows; unknown values are `None`."""

    stream: str
    tier: str
    covered_tier: str
    tier_covered: bool
    tier_reason: str
    change: ChangeFacts | None
    tier_history: list[TierChange]
    last_restore: RestoreRow | None
    not_migrated: list[str]
    """Fields whose declared value differs from the running one."""
    wanted: bool
    health: str
    reason: str
    failed: bool
    replicas: list[ReplicaFacts]
    epoch_committed: int | None
    epoch_decided: int | None
    lag_epochs: int
    lag_rows: int | None
    lag_seconds: float | None
    skipped_rows: int
    rows_without_state: int
    """Input that was left out, as the guarantee or a repair allowed."""
    rate_rows_per_second: float | None
    state_rows: int | None
    state_bytes: int | None
    snapshot: SnapshotAge | None
    recovery_time_seconds: float
    guarantee: str
    incidents: list[Incident]


def observe_facts(project: Project, name: str) -> StreamFacts:
    """Observe one stream now."""
    status = observe_stream(project, name)
    declared = project.config.stream(name)
    coverage = coverage_of(status)
    samples = _recent_samples(project, status)
    lag, gaps = current_lag(project, name, status.primary), project.store.gaps.of(name)
    committed = None if status.committed is None else status.committed.epoch
    decided = None if status.epoch is None else status.epoch.epoch
    return StreamFacts(
        stream=name,
        tier=status.tier.value,
        covered_tier=status.covered.value,
        tier_covered=coverage.covered,
        tier_reason=coverage.reason,
        change=_current_change(project, status),
        tier_history=project.store.tiers.history(name, limit=SHOWN_CHANGES),
        last_restore=project.store.restores.newest(name),
        not_migrated=_not_migrated(project, status),
        wanted=status.wanted,
        health=status.verdict.health.value,
        reason=status.verdict.reason,
        failed=status.verdict.health.failed,
        replicas=[_replica(row, status) for row in (status.primary, status.secondary) if row],
        epoch_committed=committed,
        epoch_decided=decided,
        lag_epochs=0 if decided is None else decided - (-1 if committed is None else committed),
        lag_rows=None if lag is None else lag.rows,
        lag_seconds=None if lag is None else lag.seconds,
        skipped_rows=sum(gap.rows for gap in gaps if not gap.is_of_state),
        rows_without_state=max((gap.rows for gap in gaps if gap.is_of_state), default=0),
        rate_rows_per_second=_rate(project, status),
        state_rows=_as_int(samples.get(SampleName.STATE_ROWS)),
        state_bytes=_as_int(samples.get(SampleName.STATE_BYTES)),
        snapshot=_snapshot(project, name, status.at),
        recovery_time_seconds=declared.objective.recovery_time,
        guarantee=declared.objective.guarantee.value,
        incidents=project.store.incidents.of(name),
    )


def _not_migrated(project: Project, status: StreamStatus) -> list[str]:
    row = project.store.streams.get(status.name)
    if row is None or not status.wanted:
        return []
    declared = to_json(project.config.resolve_paths(project.config.stream(status.name)))
    return sorted(key for key in declared if declared[key] != row.declaration.get(key))


def _replica(row: ReplicaRow, status: StreamStatus) -> ReplicaFacts:
    own = status.secondary_verdict if row.slot is Slot.SECONDARY else status.verdict
    verdict = own or status.verdict
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
        lag_epochs=_lag_epochs(row, status),
        heartbeat_age_seconds=None if row.heartbeat_at is None else status.at - row.heartbeat_at,
    )


def _lag_epochs(row: ReplicaRow, status: StreamStatus) -> int | None:
    if row.epoch is None or status.epoch is None:
        return None
    return max(status.epoch.epoch - row.epoch, 0)


def _names(switches: Switches) -> list[str]:
    return [name for name, is_on in asdict(switches).items() if is_on]


def _recent_samples(project: Project, status: StreamStatus) -> dict[SampleName, float]:
    """The recent samples of the live primary; an old value would pass for a current one."""
    if status.primary is None:
        return {}
    latest = project.store.samples.latest(status.name, replica=status.primary.id)
    return {
        name: sample.value
        for name, sample in latest.items()
        if status.at - sample.at <= FRESH_SECONDS
    }


def _rate(project: Project, status: StreamStatus) -> float | None:
    """Rows per second over the last few epochs; it decays while the next epoch is overdue.

    Spark's own rate counts from trigger to trigger, and jumps with each poll for input.
    """
    if status.epoch is None:
        return None
    number = status.epoch.epoch
    epochs = project.store.epochs.between(status.name, max(number - RATE_EPOCHS, 0), number)
    elapsed = epochs[-1].decided_at - epochs[0].decided_at
    if elapsed <= 0:
        return None
    overdue = status.at - epochs[-1].decided_at - elapsed / (len(epochs) - 1)
    return sum(epoch.rows for epoch in epochs[1:]) / (elapsed + max(overdue, 0.0))


def _snapshot(project: Project, name: str, now: float) -> SnapshotAge | None:
    newest = project.store.snapshots.newest(name)
    if newest is None:
        return None
    return SnapshotAge(
        id=newest.id,
        epoch=newest.epoch,
        age_seconds=now - newest.created_at,
        total_bytes=newest.total_bytes,
    )


def _as_int(value: float | None) -> int | None:
    return None if value is None else int(value)


def _current_change(project: Project, status: StreamStatus) -> ChangeFacts | None:
    """The change under way; a settled stream has none, even if a run left its journal open."""
    change = find_current_change(recent_changes(project.store, status.name), at=status.at)
    if change is None or status.is_settled:
        return None
    return ChangeFacts(
        playbook=change.playbook,
        run=change.run,
        age_seconds=status.at - change.began_at,
        steps=[*_begun_steps(change, status.at), *_planned_steps(change, status)],
    )


def _begun_steps(change: Change, now: float) -> list[StepFacts]:
    return [
        StepFacts(
            step=step.step,
            about=step.about,
            phase=step.outcome.value,
            seconds=now - step.at if step is change.current_step else step.seconds,
            failure=step.failure,
        )
        for step in change.steps
    ]


def _planned_steps(change: Change, status: StreamStatus) -> list[StepFacts]:
    """The steps after the current one, each assumed to succeed."""
    steps = [
        StepFacts(
            step=step.name, about=step_subject(step_fields(step)), phase=PLANNED, seconds=None
        )
        for step in plan_recovery(replace(status.recover_facts(), secondary_failures_in_a_row=0))
    ]
    current = change.current_step
    if (
        current is not None
        and steps
        and (current.step, current.about) == (steps[0].step, steps[0].about)
    ):
        return steps[1:]
    return steps
