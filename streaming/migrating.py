"""How far a rollout has come, from what the control store knows of its target."""

from collections.abc import Sequence

from ft_policies.migration import Migration
from resources.control.records import LedgerEntry, ReplicaRow, ReplicaState, Rollout
from resources.control.store import ControlStore
from streaming.sinks.ledgering import DIGEST_DIFFERS

MAY_BE_BEHIND = 2  # epochs: what a replica says of itself is a heartbeat old


def migrating(
    store: ControlStore,
    rollout: Rollout,
    *,
    at: float,
    committed: LedgerEntry | None,
    secondary: ReplicaRow | None,
    primaries: Sequence[ReplicaRow],
) -> Migration:
    """The rollout that is under way, as one look shows it; the last primary comes first."""
    target = secondary if secondary is not None and _runs(rollout, secondary) else None
    return Migration(
        rollout=rollout.rollout,
        protocol=rollout.protocol,
        level=target is not None and _is_level(target, committed),
        overdue=at > rollout.deadline_at,
        differs=None if rollout.may_differ else _difference(store, rollout, target),
        failed=_failure(rollout, primaries),
    )


def _runs(rollout: Rollout, row: ReplicaRow) -> bool:
    return row.rollout == rollout.rollout


def _is_level(target: ReplicaRow, committed: LedgerEntry | None) -> bool:
    done = -1 if target.epoch is None else target.epoch
    return committed is None or committed.epoch - done <= MAY_BE_BEHIND


def _difference(store: ControlStore, rollout: Rollout, target: ReplicaRow | None) -> str | None:
    """What the target computed otherwise than the primary had committed it."""
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


def _failure(rollout: Rollout, primaries: Sequence[ReplicaRow]) -> str | None:
    """Why a target that had become the primary, or was launched as it, is gone."""
    last = primaries[0] if primaries else None
    if last is None or not _runs(rollout, last) or last.state is not ReplicaState.FAILED:
        return None
    return last.reason
