"""The steps of the recover playbook that a migration adds."""

from dataclasses import dataclass
from itertools import pairwise

from holdfast.ft_policies import quantities
from holdfast.ft_policies.playbooks.recover.decide import next_step
from holdfast.ft_policies.playbooks.recover.migration import Protocol
from holdfast.ft_policies.playbooks.recover.steps import (
    AwaitTarget,
    FinishMigration,
    HandOver,
    RollBack,
    StopPrimary,
)
from holdfast.ft_policies.tiers import OFF
from holdfast.orchestration.playbooks.base import StepResult, StepSkipped
from holdfast.orchestration.playbooks.waiting import (
    StreamWaiter,
    await_exit,
)
from holdfast.resources.clock import wait_until
from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.records import (
    LedgerEntry,
    Migration,
    ReplicaRow,
    ReplicaState,
    Slot,
)

BOUNDARY_POLL_SECONDS = 0.02
BOUNDARY_EPOCHS = 10
FRESH_SHARE = 0.15  # of a pace


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOver(StepResult):
    """Whether the lease was taken, and after which epoch."""

    lease_taken: bool
    epoch: int | None


@dataclass(frozen=True, slots=True)
class MigrationFinished(StepResult):
    """The longest time without a committed epoch since the migration began."""

    longest_gap_seconds: float


@dataclass(frozen=True, slots=True)
class TargetAwaited(StepResult):
    """Why the target does not get the lease, if it does not: it was lost, late, or computes other results."""

    failed: str | None

    @property
    def failure(self) -> str:
        return self.failed or ""


@dataclass(frozen=True, slots=True)
class RolledBack(StepResult):
    """Why the migration was rolled back."""

    reason: str


def await_target(waiter: StreamWaiter, step: AwaitTarget) -> TargetAwaited:
    """Wait until another step is due: the target has caught up, or its time is over."""
    ended = waiter.wait_until(
        lambda status: next_step(status.recover_facts()) != step,
        patience_seconds=waiter.migration_seconds_left,
    )
    status = ended or waiter.observe()
    fault = None if status.migration is None else status.migration.fault
    return TargetAwaited(waiter.why_lost(step.secondary, status) or fault)


def hand_over(waiter: StreamWaiter, step: HandOver) -> StepResult:
    """Fence the primary just after an epoch was committed; the target observes that and takes over."""
    if not waiter.is_still_next(step):
        return StepSkipped()
    store, migration = waiter.project.store, waiter.project.store.migrations.open(waiter.stream)
    replays = migration is not None and migration.protocol is Protocol.REPLAY
    epoch = _await_boundary(waiter, step.secondary, replays=replays)
    # The target may be gone by now. That it is further behind just after a commit does not matter.
    if not waiter.is_still_next(step, as_caught_up=replays):
        return StepSkipped()
    taken = store.takeovers.fence(
        step.primary,
        stream=waiter.stream,
        reason=f"to {step.secondary}",
        token=step.token,
        state=ReplicaState.HANDED_OVER,
    )
    return HandedOver(lease_taken=bool(taken), epoch=epoch)


def stop_primary(waiter: StreamWaiter, step: StopPrimary) -> StepResult:
    """Request the exit of the primary with a last snapshot, and wait for it."""
    if not waiter.is_still_next(step):
        return StepSkipped()
    waiter.project.store.replicas.desire(step.primary, OFF)
    return await_exit(waiter.project, step.primary, keep_alive=waiter.keep_alive)


def finish(waiter: StreamWaiter, step: FinishMigration) -> StepResult:
    """Make the target the declaration of the stream, and measure the longest time without a commit."""
    store = waiter.project.store
    migration = store.migrations.open(waiter.stream)
    if migration is None or migration.rollout != step.rollout:
        return StepSkipped()
    gap = _longest_gap(waiter, migration)
    if migration.may_differ:
        _close_differences(waiter, migration)
    store.migrations.finish(
        waiter.stream, step.rollout, f"longest time without a commit {quantities.seconds(gap)}"
    )
    return MigrationFinished(gap)


def roll_back(waiter: StreamWaiter, step: RollBack) -> RolledBack:
    """Abandon the migration; from then on its target never takes over, and is stopped like any secondary.

    Nor does a replica start from a snapshot of the target: its state may be as wrong as its output.
    """
    store = waiter.project.store
    for row in _targets(waiter, step.rollout):
        store.replicas.desire(row.id, OFF, slot=Slot.SECONDARY)
    store.migrations.abandon(waiter.stream, step.rollout, f"rolled back: {step.reason}")
    return RolledBack(step.reason)


def _targets(waiter: StreamWaiter, number: int) -> list[ReplicaRow]:
    """All replicas that have run the target of a migration, including those that have ended."""
    rows = waiter.project.store.replicas.of(waiter.stream, live=False)
    return [row for row in rows if row.rollout == number]


def _await_boundary(waiter: StreamWaiter, target: str, *, replays: bool) -> int | None:
    """Wait for a commit and return its epoch; unless it `replays`, the target has at most that one to compute.

    With the host to itself the target has computed it before the next epoch is decided, and nothing that the
    primary has begun is lost. In the second half of the wait any moment is accepted. A silent stream does not
    delay the handover for long, nor one whose epochs are shorter than the age of its replicas' reports.
    """
    store, clock, most = waiter.project.store, waiter.project.clock, _most_seconds(waiter)
    began = clock.monotonic()
    before = store.ledger.last(waiter.stream)

    def is_at_boundary() -> bool:
        last = store.ledger.last(waiter.stream)
        if last is None or last == before:
            return False
        late = clock.monotonic() - began > most / 2
        return replays or (_is_near(waiter, target, last) and (late or _is_fresh(waiter, last)))

    wait_until(
        is_at_boundary,
        clock=clock,
        patience_seconds=most,
        poll_seconds=BOUNDARY_POLL_SECONDS,
        keep_alive=waiter.keep_alive,
    )
    last = store.ledger.last(waiter.stream)
    return None if last is None else last.epoch


def _most_seconds(waiter: StreamWaiter) -> float:
    """The time for some epochs; short enough that the migration is not rolled back meanwhile."""
    epoch = waiter.project.config.stream(waiter.stream).epoch
    slack_seconds = waiter.project.timings(waiter.stream).slack_seconds
    seconds = epoch.silence + BOUNDARY_EPOCHS * (epoch.seconds or 0.0) + slack_seconds
    return min(seconds, waiter.migration_seconds_left / 2)


def _is_near(waiter: StreamWaiter, target: str, last: LedgerEntry) -> bool:
    """Whether the target computes the last epoch or has done so; one that is gone delays nothing."""
    row = waiter.project.store.replicas.get(target)
    return row is None or row.epoch is None or row.epoch >= last.epoch - 1


def _is_fresh(waiter: StreamWaiter, last: LedgerEntry) -> bool:
    """Whether an epoch was committed a moment ago: no replica has done much of the next."""
    pace = waiter.project.config.stream(waiter.stream).epoch.seconds or float("inf")
    return waiter.project.store.now() - last.committed_at <= FRESH_SHARE * pace


def _longest_gap(waiter: StreamWaiter, migration: Migration) -> float:
    """The longest time without a commit until now: a target that has caught up may not have committed yet."""
    store = waiter.project.store
    now = store.now()  # read first: a later commit must not end a gap
    entries = store.ledger.since(waiter.stream, at=migration.begun_at)
    times = [*(entry.committed_at for entry in entries), now]
    return max((after - before for before, after in pairwise(times)), default=0.0)


def _close_differences(waiter: StreamWaiter, migration: Migration) -> None:
    """Close the incidents about differing output of the target: it was allowed to differ."""
    store = waiter.project.store
    targets = {row.id for row in _targets(waiter, migration.rollout)}
    for incident in store.incidents.of(waiter.stream):
        if incident.kind == IncidentKind.DIGEST_DIFFERS and incident.replica in targets:
            store.incidents.close(
                incident.id, "expected: the stream was migrated to code whose output may differ"
            )
