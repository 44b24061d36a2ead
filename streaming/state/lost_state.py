"""What a replica does without a snapshot: it starts at epoch 0, or after a gap that the operator has accepted, or not at all.

Once epochs are pruned, state that is lost cannot be computed again. A start with empty state would silently change
what the stream computes, so it is a question to the operator: an incident that stays open.
"""

from collections.abc import Collection

from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.vault.catalogue import list_restorable
from holdfast.resources.vault.vault import SnapshotVault


def find_accepted_loss(store: ControlStore, stream: str) -> int | None:
    """The epoch after which the stream may continue with empty state; `None` if the operator has accepted no loss."""
    first = store.retention.floor(stream).first_epoch
    accepted = [gap.last_entered for gap in store.gaps.of(stream) if gap.is_of_state]
    last = max(accepted, default=-1)
    return last if 0 <= first <= last else None


def require_start(
    store: ControlStore, stream: str, vault: SnapshotVault, *, refused: Collection[str] = ()
) -> int | None:
    """The epoch after which to start with empty state, `None` for epoch 0; raises if only the operator can decide.

    `refused` are the snapshots that could not be restored. Of a snapshot that the catalogue has and the object store
    has not, it is not known that it is lost: bucket and prefix may be wrong.
    """
    first, row, listing = (
        store.retention.floor(stream).first_epoch,
        store.snapshots.newest(stream),
        vault.listing(),
    )
    put_back = "check object_store.bucket and prefix, or put the objects back"
    listed = {record.id for record in (*listing.snapshots, *listing.superseded)}
    if row is not None and row.id not in listed and not _is_any_left(store, stream, vault, refused):
        others = " that can be restored" if listed else ""
        reason = f"the object store has no snapshot of {stream}{others}, but the catalogue has {row.id} after epoch {row.epoch}"
        repair = f"run `holdfast doctor {stream} --repair mark_snapshots`, then {describe_way_on(store, stream)}"
        raise _ask_operator(store, stream, reason, f"{put_back}; if they are lost, {repair}")
    accepted = find_accepted_loss(store, stream)
    if first and accepted is None:
        reason = (
            f"no snapshot of {stream} can be restored, and its epochs before {first} are pruned"
        )
        raise _ask_operator(
            store, stream, reason, f"{put_back}; if they are lost, {describe_way_on(store, stream)}"
        )
    return accepted


def _is_any_left(
    store: ControlStore, stream: str, vault: SnapshotVault, refused: Collection[str]
) -> bool:
    restorable = list_restorable(store, stream, vault)
    return any(record.id not in refused for record in restorable)


def describe_way_on(store: ControlStore, stream: str) -> str:
    """How the operator lets a stream continue whose snapshots are lost for good."""
    first = store.retention.floor(stream).first_epoch
    if not first:
        return f"`holdfast start {stream}` replays everything from epoch 0"
    return (
        f"`holdfast start {stream} --empty-state` continues after the last epoch without what was in the state: "
        f"epochs before {first} are pruned and cannot be computed again"
    )


def close_question(store: ControlStore, stream: str, answer: str) -> None:
    """Close the incident of lost snapshots, if one is open."""
    for incident in store.incidents.of(stream):
        if incident.kind == IncidentKind.SNAPSHOTS_LOST:
            store.incidents.close(incident.id, answer)


def _ask_operator(store: ControlStore, stream: str, reason: str, hint: str) -> PermanentError:
    detail = {"reason": reason, "hint": hint}
    key = f"{stream}/{IncidentKind.SNAPSHOTS_LOST}"
    store.incidents.open_next(
        stream=stream, key=key, kind=IncidentKind.SNAPSHOTS_LOST, detail=detail, since=store.now()
    )
    return PermanentError(reason, hint=hint)
