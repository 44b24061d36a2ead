"""Snapshots as `holdfast snapshots` shows them: vault and catalogue joined, and a manifest in full."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from holdfast.orchestration.cli import format as fmt
from holdfast.resources.control_store.records import SnapshotRow, SnapshotState
from holdfast.resources.project import Project
from holdfast.resources.vault.records import SnapshotRecord

SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSnapshot:
    """A snapshot in the object store; the catalogue's values are `None` for one that it lacks."""

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


def list_snapshots(project: Project, stream: str) -> list[ListedSnapshot]:
    """All snapshots, newest first, including those of the catalogue that the object store lacks."""
    rows = {row.id: row for row in project.store.snapshots.of(stream, available_only=False)}
    listing = project.vault(stream).listing()
    present = [
        _from_row(row, state=row.state.value, reason=row.reason)
        if (row := rows.get(record.id)) is not None
        else _from_record(record)
        for record in listing.snapshots
    ]
    for record in listing.superseded:
        row, cause = rows.get(record.id), listing.find_superseding(record).cause
        present.append(
            _from_record(record, state=SUPERSEDED, reason=cause)
            if row is None
            else _from_row(row, state=SUPERSEDED, reason=cause)
        )
    stored_ids = {record.id for record in (*listing.snapshots, *listing.superseded)}
    missing = [
        _from_row(row, state="missing", reason="not in the object store")
        for row in rows.values()
        if row.id not in stored_ids and row.state is SnapshotState.AVAILABLE
    ]
    return sorted(present + missing, key=lambda snapshot: snapshot.id, reverse=True)


def describe_snapshot(project: Project, stream: str, snapshot_id: str) -> dict[str, Any]:
    """The manifest as plain values, with when the snapshot was proven."""
    manifest = project.vault(stream).manifest(snapshot_id)
    row = project.store.snapshots.get(stream, snapshot_id)
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
) -> ListedSnapshot:
    return ListedSnapshot(
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


def _from_row(row: SnapshotRow, *, state: str, reason: str) -> ListedSnapshot:
    return ListedSnapshot(
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


def manifest_view(
    facts: dict[str, Any], *, now: float, with_files: bool
) -> Iterator[RenderableType]:
    """Packs, folders and the conf that must match; with `with_files` every file, too."""
    yield f"[bold]{facts['id']}[/bold]"
    yield f"epoch {facts['epoch']:,}, shipped by {facts['replica']}, Spark {facts['spark_version']}"
    yield f"parent: {facts['parent'] or 'none'}"
    proven_at = facts["proven_at"]
    proof = fmt.proof(proven_at and now - proven_at, facts["proven_seconds"])
    yield f"proven: {proof or 'never'}"
    yield ""
    yield _packs(facts["packs"])
    yield ""
    yield _folders(facts["files"])
    yield ""
    yield _conf(facts["conf"])
    if with_files:
        yield ""
        yield _files(facts["files"])


def _packs(packs: list[dict[str, Any]]) -> Table:
    table = _table("pack", "size", "live")
    for pack in packs:
        table.add_row(pack["name"], fmt.size(pack["bytes"]), fmt.share(pack["live_share"]))
    return table


def _folders(files: list[dict[str, Any]]) -> Table:
    count: Counter[str] = Counter()
    size: Counter[str] = Counter()
    for file in files:
        folder = str(file["path"]).partition("/")[0]
        for name in (folder, "all"):
            count[name] += 1
            size[name] += file["bytes"]
    table = _table("part", "files", "size")
    for name in sorted(count, key=lambda name: (name == "all", name)):
        table.add_row(escape(name), fmt.count(count[name]), fmt.size(size[name]))
    return table


def _conf(conf: dict[str, str]) -> Table:
    table = Table("conf that must match", "value", box=None, pad_edge=False)
    for name, value in conf.items():
        table.add_row(name, escape(value) or "[dim]not set[/dim]")
    return table


def _files(files: list[dict[str, Any]]) -> Table:
    table = _table("file", "size", "pack")
    for file in files:
        table.add_row(escape(file["path"]), fmt.size(file["bytes"]), file["pack"])
    return table


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="left" if name == "pack" else "right")
    return table
