"""What the snapshot commands tell: the vault has the snapshots, the catalogue their story."""

from dataclasses import dataclass
from typing import Any

from holdfast.resources.control_store.records import SnapshotRow, SnapshotState
from holdfast.resources.project import Project
from holdfast.resources.vault.records import SnapshotRecord

SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A snapshot in the object store; what only the catalogue knows is `None` if it does not."""

    id: str
    epoch: int
    token: int
    replica: str
    created_at: float
    files: int | None
    total_bytes: int | None
    new_bytes: int | None
    requests: int | None
    seconds: float | None
    state: str
    reason: str
    verified_at: float | None
    proven_at: float | None
    proven_seconds: float | None


def listed(world: Project, stream: str) -> list[Listed]:
    """All snapshots, newest first, and those that the catalogue has and the store has not."""
    rows = {row.id: row for row in world.store.snapshots.of(stream, available_only=False)}
    listing = world.vault(stream).listing()
    present = [
        _from_row(row, state=row.state.value, reason=row.reason)
        if (row := rows.get(record.id)) is not None
        else _from_record(record)
        for record in listing.snapshots
    ]
    for record in listing.superseded:
        row, by = rows.get(record.id), listing.superseded_by(record).cause
        present.append(
            _from_record(record, state=SUPERSEDED, reason=by)
            if row is None
            else _from_row(row, state=SUPERSEDED, reason=by)
        )
    known = {record.id for record in (*listing.snapshots, *listing.superseded)}
    lost = [
        _from_row(row, state="missing", reason="the object store does not have it")
        for row in rows.values()
        if row.id not in known and row.state is SnapshotState.AVAILABLE
    ]
    return sorted(present + lost, key=lambda one: one.id, reverse=True)


def described(world: Project, stream: str, snapshot_id: str) -> dict[str, Any]:
    """A manifest as plain facts, and when the snapshot was proven."""
    manifest = world.vault(stream).manifest(snapshot_id)
    row = world.store.snapshots.get(stream, snapshot_id)
    live = dict.fromkeys(manifest.packs, 0)
    for file in manifest.files:
        live[file.pack] += file.size_bytes
    return {
        "id": manifest.id,
        "stream": manifest.stream,
        "epoch": manifest.epoch,
        "token": manifest.token,
        "replica": manifest.replica,
        "parent": manifest.parent,
        "created_at": manifest.created_at,
        "proven_at": None if row is None else row.proven_at,
        "proven_seconds": None if row is None else row.proven_seconds,
        "spark_version": manifest.spark_version,
        "conf": dict(manifest.conf),
        "total_bytes": manifest.state_bytes,
        "packs": [
            {"name": name, "bytes": size, "live_share": live[name] / size if size else 1.0}
            for name, size in manifest.packs.items()
        ],
        "files": [
            {"path": f.path, "bytes": f.size_bytes, "pack": f.pack, "sha256": f.sha256.hex()}
            for f in manifest.files
        ],
    }


def _from_record(
    record: SnapshotRecord, *, state: str = "not in the catalogue", reason: str = ""
) -> Listed:
    return Listed(
        id=record.id,
        epoch=record.epoch,
        token=record.token,
        replica=record.replica,
        created_at=record.created_at,
        files=None,
        total_bytes=None,
        new_bytes=None,
        requests=None,
        seconds=None,
        state=state,
        reason=reason,
        verified_at=None,
        proven_at=None,
        proven_seconds=None,
    )


def _from_row(row: SnapshotRow, *, state: str, reason: str) -> Listed:
    return Listed(
        id=row.id,
        epoch=row.epoch,
        token=row.token,
        replica=row.replica,
        created_at=row.created_at,
        files=row.files,
        total_bytes=row.total_bytes,
        new_bytes=row.new_bytes,
        requests=row.requests,
        seconds=row.seconds,
        state=state,
        reason=reason,
        verified_at=row.verified_at,
        proven_at=row.proven_at,
        proven_seconds=row.proven_seconds,
    )
