"""Changes to a stream's snapshots: made in the vault, recorded in the catalogue of the control store."""

from collections.abc import Mapping
from typing import Any

from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.records import SnapshotState
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.project import Project
from holdfast.resources.vault.objects.manifest import Manifest
from holdfast.resources.vault.records import Pruned, SnapshotRecord, build_snapshot_row
from holdfast.resources.vault.vault import SnapshotVault


def verify(project: Project, stream: str, snapshot_id: str) -> list[str]:
    """Read a snapshot in full and record whether it is damaged; returns the problems."""
    problems = project.vault(stream).verify(snapshot_id)
    catalogue = project.store.snapshots
    if problems:
        catalogue.mark(stream, snapshot_id, SnapshotState.DAMAGED, problems[0])
    else:
        catalogue.mark(stream, snapshot_id, SnapshotState.AVAILABLE, "")
        catalogue.record_verification(stream, snapshot_id)
    return problems


def list_restorable(store: ControlStore, stream: str, vault: SnapshotVault) -> list[SnapshotRecord]:
    """The snapshots that a recovery or a restore can begin with: own ones, and not known to be damaged.

    Superseded ones are among them. There is a request for each.
    """
    rows = store.snapshots.of(stream, available_only=False)
    damaged = {row.id for row in rows if row.state is SnapshotState.DAMAGED}
    return [record for record in vault.list_readable() if record.id not in damaged]


def prune(project: Project, stream: str, *, dry_run: bool) -> Pruned:
    """Drop what neither the stream's retention nor the restore window keeps; a dry run only lists it."""
    window_seconds = project.config.deployment.retention.restore_window
    policy = project.config.stream(stream).retention.policy().covering(window_seconds)
    pruned = project.vault(stream).prune(policy, dry_run=dry_run)
    if not dry_run:
        reasons = {verdict.snapshot.id: "; ".join(verdict.reasons) for verdict in pruned.verdicts}
        dropped = {snapshot: reasons[snapshot] for snapshot in pruned.dropped}
        project.store.snapshots.mark_dropped(stream, dropped)
        _report_unreadable(project, stream, pruned.damaged)
    return pruned


def _report_unreadable(project: Project, stream: str, unreadable: Mapping[str, str]) -> None:
    """Open an incident for each snapshot that holds up the deletion of packs, and close those that are over.

    It is open until the manifest is readable, set aside or dropped: until then the object store only grows.
    A manifest that another process has dropped meanwhile is no such one.
    """
    store = project.store
    listing = project.vault(stream).listing() if unreadable else None
    present = [] if listing is None else [*listing.snapshots, *listing.superseded]
    damaged = {row.id: unreadable[row.id] for row in present if row.id in unreadable}
    for incident in store.incidents.of(stream):
        if (
            incident.kind == IncidentKind.SNAPSHOT_DAMAGED
            and incident.detail.get("snapshot") not in damaged
        ):
            store.incidents.close(
                incident.id, "its manifest holds up no deletion of packs any more"
            )
    for snapshot, reason in damaged.items():
        store.snapshots.mark(stream, snapshot, SnapshotState.DAMAGED, reason)
        detail = {
            "snapshot": snapshot,
            "reason": f"{reason}: no pack of {stream} is deleted until it is set aside",
            "hint": f"run `holdfast doctor {stream} --repair set_aside_snapshots`",
        }
        store.incidents.open_next(
            stream=stream,
            key=f"{stream}/{snapshot}/unreadable",
            kind=IncidentKind.SNAPSHOT_DAMAGED,
            detail=detail,
            since=store.now(),
        )


def forget(project: Project, stream: str, snapshot_id: str) -> None:
    """Remove a snapshot that no other builds on; the next pruning deletes its packs."""
    project.store.snapshots.forget(stream, snapshot_id)
    project.object_store().delete([project.vault(stream).manifest_key(snapshot_id)])


def adopt(
    project: Project, stream: str, manifest: Manifest, source: SnapshotVault
) -> Mapping[str, Any]:
    """Copy a snapshot from another vault into the stream's own; returns its packs and bytes."""
    began, vault = project.clock.monotonic(), project.vault(stream)
    copy = vault.adopt(manifest, source)
    pack_bytes = sum(copy.packs.values())
    project.store.snapshots.record(
        build_snapshot_row(
            stream,
            copy,
            vault.manifest_key(copy.id),
            new_bytes=copy.state_bytes,
            requests=len(copy.packs) + 1,
            seconds=project.clock.monotonic() - began,
        )
    )
    return {"packs": len(copy.packs), "bytes": pack_bytes}
