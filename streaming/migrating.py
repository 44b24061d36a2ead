"""How far a rollout has come, from what the control store knows of its target."""

from collections.abc import Sequence

from ft_policies.playbooks.recover.decide import FAILURES_BEFORE_GIVING_UP
from ft_policies.playbooks.recover.migration import (
    MOST_BEHIND,
    REPLAY_SHARE,
    MigrationFacts,
    Protocol,
)
from resources.control.records import LedgerEntry, ReplicaRow, ReplicaState, Rollout, Slot
from resources.control.store import ControlStore
from streaming.sinks.ledgering import DIGEST_DIFFERS

LATELY = 100  # epochs: what a replica has kept back is compared a moment after it was committed
_LOST = frozenset({ReplicaState.FAILED, ReplicaState.DEAD, ReplicaState.FENCED})


def migrating(
    store: ControlStore,
    rollout: Rollout,
    *,
    before: int,
    at: float,
    committed: LedgerEntry | None,
    replicas: Sequence[ReplicaRow],
) -> MigrationFacts:
    """The rollout that is under way, as one look shows it; `before` is what the stream ran until then."""
    targets = [row for row in replicas if row.rollout == rollout.rollout]
    target = next((row for row in targets if not row.state.ended), None)
    return MigrationFacts(
        rollout=rollout.rollout,
        protocol=rollout.protocol,
        before=before,
        caught_up=target is not None and _has_caught_up(store, rollout, target, committed, at),
        overdue=at > rollout.deadline_at,
        differs=None if rollout.may_differ else _difference(store, rollout, target),
        failed=_failure(targets),
    )


def _has_caught_up(
    store: ControlStore,
    rollout: Rollout,
    target: ReplicaRow,
    committed: LedgerEntry | None,
    at: float,
) -> bool:
    """Whether it has come as far as its protocol asks, and has computed something to be held against."""
    if committed is None or rollout.protocol is Protocol.LEGACY:
        return True
    if rollout.protocol is Protocol.REPLAY and at > _at_share(rollout, REPLAY_SHARE):
        return store.ledger.has_copy(target.stream, target.id, first=0)
    done = -1 if target.epoch is None else target.epoch
    near = committed.epoch - done <= MOST_BEHIND[rollout.protocol]
    lately = committed.epoch - LATELY
    return near and store.ledger.has_copy(target.stream, target.id, first=lately)


def _at_share(rollout: Rollout, share: float) -> float:
    """When that much of its time is over."""
    return rollout.begun_at + share * (rollout.deadline_at - rollout.begun_at)


def _difference(store: ControlStore, rollout: Rollout, target: ReplicaRow | None) -> str | None:
    """What the target computed otherwise than the old primary had committed it."""
    if target is None:
        return None
    return next(
        (
            str(one.detail.get("reason"))
            for one in store.incidents.of(rollout.stream)
            if one.kind == DIGEST_DIFFERS and target.id in one.key
        ),
        None,
    )


def _failure(targets: Sequence[ReplicaRow]) -> str | None:
    """Why there is no use in another target: the last one failed as the primary, or too many were lost."""
    lost = [row for row in targets if row.state in _LOST]
    if not lost:
        return None
    last = max(lost, key=lambda row: row.ended_at or 0.0)
    as_primary = last.slot is Slot.PRIMARY and last.state is ReplicaState.FAILED
    return last.reason if as_primary or len(lost) >= FAILURES_BEFORE_GIVING_UP else None
