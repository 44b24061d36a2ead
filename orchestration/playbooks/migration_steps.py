"""The steps of the recover playbook that a migration adds."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from ft_policies.migration import (
    AwaitTarget,
    FinishMigration,
    HandOver,
    Protocol,
    RollBack,
    StopPrimary,
)
from ft_policies.recovery import next_step
from ft_policies.tiers import OFF
from orchestration.playbooks.leaving import await_leave
from orchestration.playbooks.watching import NOT_DUE, SLACK_SECONDS, Watch
from resources.clock import SYSTEM_CLOCK
from resources.control.records import LedgerEntry, ReplicaRow, ReplicaState, Rollout, Slot
from streaming.sinks.ledger_writer import DIGEST_DIFFERS

BOUNDARY_LOOK_SECONDS = 0.02
BOUNDARY_EPOCHS = 10
FRESH_SHARE = 0.15  # of a pace


def await_target(watch: Watch, step: AwaitTarget) -> Mapping[str, Any]:
    """Wait until something else is to be done: it is near enough, or its time is over."""
    watch.until(
        lambda seen: next_step(seen.observed()) != step,
        patience_seconds=watch.migration_seconds_left,
    )
    return {}


def hand_over(watch: Watch, step: HandOver) -> Mapping[str, Any]:
    """Fence the primary just after an epoch was committed; its target sees that, and takes over."""
    if not watch.is_due(step):
        return {"found": NOT_DUE}
    store, rollout = watch.world.store, watch.world.store.rollouts.open(watch.stream)
    replays = rollout is not None and rollout.protocol is Protocol.REPLAY
    epoch = _await_boundary(watch, step.secondary, replays=replays)
    # The target may be gone since. Just after a commit it is further behind: that is no reason.
    if not watch.is_due(step, as_level=replays):
        return {"found": NOT_DUE}
    taken = store.leases.fence(watch.stream, token=step.token)
    store.replicas.end(step.primary, ReplicaState.HANDED_OVER, f"to {step.secondary}")
    return {"lease_taken": taken, "epoch": epoch}


def stop_primary(watch: Watch, step: StopPrimary) -> Mapping[str, Any]:
    """Ask the primary to leave with a last snapshot, and wait until it has."""
    if not watch.is_due(step):
        return {"found": NOT_DUE}
    watch.world.store.replicas.desire(step.primary, OFF)
    return await_leave(watch.world, step.primary, beat=watch.beat)


def finish(watch: Watch, step: FinishMigration) -> Mapping[str, Any]:
    """Make the declaration the stream's, and tell the longest time without a committed epoch."""
    store = watch.world.store
    rollout = store.rollouts.open(watch.stream)
    if rollout is None or rollout.rollout != step.rollout:
        return {"found": NOT_DUE}
    gap = _longest_gap(watch, rollout)
    if rollout.may_differ:
        _close_differences(watch, rollout)
    store.rollouts.finish(watch.stream, step.rollout, f"longest time without a commit {gap:.2f} s")
    return {"longest_gap_seconds": gap}


def roll_back(watch: Watch, step: RollBack) -> Mapping[str, Any]:
    """Give the rollout up; from then on its target takes nothing over, and is seen off like any other.

    Nor does anybody go on from what a target has shipped: its state may be as wrong as its output.
    """
    store = watch.world.store
    for row in _targets(watch, step.rollout):
        store.replicas.desire(row.id, OFF, slot=Slot.SECONDARY)
    store.rollouts.abandon(watch.stream, step.rollout, f"rolled back: {step.reason}")
    return {}


def _targets(watch: Watch, rollout: int) -> list[ReplicaRow]:
    """All replicas that have run what a rollout brings, also those that have ended."""
    rows = watch.world.store.replicas.of(watch.stream, live=False)
    return [row for row in rows if row.rollout == rollout]


def _await_boundary(watch: Watch, target: str, *, replays: bool) -> int | None:
    """The epoch that has just been committed; unless it `replays`, the target has at most that one to compute.

    With the host to itself it has done so before the next one is decided, and nothing that the primary has begun
    is lost. For the second half of the wait any moment will do. A stream that is silent does not keep us for
    long, nor one whose epochs are shorter than what its replicas say of themselves is old.
    """
    store, began, most = watch.world.store, SYSTEM_CLOCK.monotonic(), _most_seconds(watch)
    before = last = store.ledger.last(watch.stream)
    while (waited := SYSTEM_CLOCK.monotonic() - began) <= most:
        if last is not None and last != before:
            late = waited > most / 2
            if replays or (_is_near(watch, target, last) and (late or _is_fresh(watch, last))):
                break
        watch.beat()
        SYSTEM_CLOCK.sleep(BOUNDARY_LOOK_SECONDS)
        last = store.ledger.last(watch.stream)
    return None if last is None else last.epoch


def _most_seconds(watch: Watch) -> float:
    """Until some epochs have been committed; not so long that the migration would be rolled back meanwhile."""
    epoch = watch.world.project.stream(watch.stream).epoch
    seconds = epoch.silence + BOUNDARY_EPOCHS * (epoch.seconds or 0.0) + SLACK_SECONDS
    return min(seconds, watch.migration_seconds_left / 2)


def _is_near(watch: Watch, target: str, last: LedgerEntry) -> bool:
    """Whether the target is at work on the last epoch, or has done it; one that is gone does not keep us."""
    row = watch.world.store.replicas.get(target)
    return row is None or row.epoch is None or row.epoch >= last.epoch - 1


def _is_fresh(watch: Watch, last: LedgerEntry) -> bool:
    """Whether an epoch was committed a moment ago: nobody has got far with the next."""
    pace = watch.world.project.stream(watch.stream).epoch.seconds or float("inf")
    return watch.world.store.now() - last.committed_at <= FRESH_SHARE * pace


def _longest_gap(watch: Watch, rollout: Rollout) -> float:
    """The longest time without a commit until now: a target that is level may not have had input yet."""
    store = watch.world.store
    now = store.now()  # first: what is committed after this look is no gap
    entries = store.ledger.since(watch.stream, at=rollout.begun_at)
    times = [*(one.committed_at for one in entries), now]
    return max((after - before for before, after in pairwise(times)), default=0.0)


def _close_differences(watch: Watch, rollout: Rollout) -> None:
    """What the target's output differed in was to be expected."""
    store = watch.world.store
    targets = [row.id for row in _targets(watch, rollout.rollout)]
    for one in store.incidents.of(watch.stream):
        if one.kind == DIGEST_DIFFERS and any(target in one.key for target in targets):
            store.incidents.close(one.id, "it was migrated to other code, whose output may differ")
