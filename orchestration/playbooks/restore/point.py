"""The point that a stream is restored to: the requested epoch, the snapshot to start from, and the cost.

Every reason to refuse a restore is found here, before anything is changed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from holdfast.configs.declarations.sources import FilesSource as FilesDeclaration
from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.control_store.records import LedgerEntry, RestoreRow
from holdfast.resources.object_store.resolve import connector, open_filesystem
from holdfast.resources.project import Project
from holdfast.resources.vault.objects.manifest import Manifest, UnusableSnapshotError
from holdfast.resources.vault.records import SnapshotRecord
from holdfast.resources.vault.vault import SnapshotVault
from holdfast.streaming.sources.files import FilesSource, none_assigned


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreTarget:
    """A requested point in the past of a stream: one of epoch, time and snapshot.

    `place` is where its snapshots are; without it they are where the stream ships them.
    """

    epoch: int | None = None
    at: float | None = None
    snapshot: str | None = None
    place: str | None = None

    def __post_init__(self) -> None:
        if sum(value is not None for value in (self.epoch, self.at, self.snapshot)) > 1:
            raise PermanentError(
                "the restore target is ambiguous: it names more than one of epoch, time and snapshot",
                hint="name one of them",
            )

    @property
    def names_point(self) -> bool:
        """Whether the target names an epoch, a time or a snapshot."""
        return (self.epoch, self.at, self.snapshot) != (None, None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePoint:
    """An epoch that a stream can be restored to, and what that undoes and computes again."""

    stream: str
    epoch: int
    snapshot: Manifest | None
    last_epoch: int
    last_decided: int
    undone_rows: int
    computed_rows: int

    @property
    def undone_epochs(self) -> int:
        """How many committed epochs are undone."""
        return self.last_epoch - self.epoch

    def later_entries(self, project: Project) -> list[LedgerEntry]:
        return project.store.ledger.between(self.stream, self.epoch + 1, self.last_epoch)

    @property
    def first_computed(self) -> int:
        """The epoch that follows the snapshot."""
        return 0 if self.snapshot is None else self.snapshot.epoch + 1

    @property
    def snapshot_id(self) -> str | None:
        return None if self.snapshot is None else self.snapshot.id


def point_numbers(point: RestorePoint) -> dict[str, Any]:
    return {
        "epoch": point.epoch,
        "snapshot": point.snapshot_id,
        "last_epoch": point.last_epoch,
        "undone_epochs": point.undone_epochs,
        "undone_rows": point.undone_rows,
        "computed_epochs": point.last_decided - point.first_computed + 1,
        "computed_rows": point.computed_rows,
    }


def parse_time(text: str) -> float:
    """Parse an ISO 8601 time to Unix seconds; one without a zone is UTC."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError as error:
        raise PermanentError(
            f"{text!r} is not a time",
            hint="write it as 2026-11-17T02:30:00 (UTC) or with a zone, +01:00",
        ) from error
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()


def vault_of(project: Project, stream: str, target: RestoreTarget) -> SnapshotVault:
    """The vault that the target takes its snapshots from."""
    return (
        project.vault(stream)
        if target.place is None
        else project.vault_elsewhere(target.place, stream)
    )


def epoch_of(project: Project, stream: str, target: RestoreTarget) -> int:
    """The committed epoch of a target; raises if there is none."""
    last = project.store.ledger.last(stream)
    if last is None:
        raise PermanentError(
            f"{stream} cannot be restored: it has committed nothing yet",
            hint=f"run `holdfast status {stream}` for its health",
        )
    if target.at is not None:
        return _last_committed(project, stream, target.at).epoch
    epoch = target.epoch if target.snapshot is None else _find_record(project, stream, target).epoch
    if epoch is None:
        raise PermanentError(
            "the restore target is missing",
            hint="name an epoch, a time or a snapshot",
        )
    if epoch > last.epoch:
        raise PermanentError(
            f"epoch {epoch} of {stream} is not committed: the last one is {last.epoch}",
            hint=f"name an epoch up to {last.epoch}",
        )
    _require_kept(project, stream, epoch)
    if project.store.ledger.get(stream, epoch) is None:
        raise PermanentError(
            f"epoch {epoch} of {stream} is not in the ledger",
            hint="name another epoch: the check `ledger_complete` lists the missing ones",
        )
    return epoch


def _require_kept(project: Project, stream: str, epoch: int) -> None:
    first = project.store.retention.floor(stream).first_epoch
    if epoch < first:
        raise PermanentError(
            f"epoch {epoch} of {stream} cannot be restored: epochs before {first} are pruned",
            hint=f"name epoch {first} or a later one; `retention.restore_window` in configs/holdfast.yaml says how long "
            "epochs are kept",
        )


def find_point(project: Project, stream: str, target: RestoreTarget) -> RestorePoint:
    """Find the point of a target, with the newest whole snapshot up to it."""
    store, epoch = project.store, epoch_of(project, stream, target)
    last, decided = store.ledger.last(stream), store.epochs.last(stream)
    last_epoch = epoch if last is None else last.epoch
    last_decided = last_epoch if decided is None else decided.epoch
    snapshot = _newest(project, stream, target, up_to=epoch)
    first = 0 if snapshot is None else snapshot.epoch + 1
    _require_epochs(project, stream, first, last_decided, snapshot)
    undone = store.ledger.between(stream, epoch + 1, last_epoch)
    return RestorePoint(
        stream=stream,
        epoch=epoch,
        snapshot=snapshot,
        last_epoch=last_epoch,
        last_decided=last_decided,
        undone_rows=sum(entry.rows for entry in undone),
        computed_rows=store.epochs.rows_between(stream, first, last_decided),
    )


@dataclass(frozen=True, slots=True)
class Fetch:
    """A snapshot that is to be copied from another place."""

    snapshot: str
    source: SnapshotVault


def find_fetch(project: Project, stream: str, target: RestoreTarget, epoch: int) -> Fetch | None:
    """Find the newest snapshot up to an epoch in the place of the target, if it is not copied yet."""
    if target.place is None:
        return None
    manifest = _newest(project, stream, target, up_to=epoch)
    if manifest is None or has_whole_snapshot(project, stream, manifest.id):
        return None
    return Fetch(manifest.id, vault_of(project, stream, target))


def has_whole_snapshot(project: Project, stream: str, snapshot: str) -> bool:
    """Whether the vault of the stream has a snapshot with all its packs, as far as a listing shows."""
    vault = project.vault(stream)
    listed = (record for record in vault.list() if record.id == snapshot)
    return any(_read_whole(vault, record) is not None for record in listed)


def require_source(project: Project, stream: str, first: int, last: int) -> None:
    """Refuse if input files are gone from which these epochs must be computed again."""
    declared = project.config.stream(stream).source
    if not isinstance(declared, FilesDeclaration):
        return
    connect = connector(project.config.deployment.object_store, project.config.home)
    files, root = open_filesystem(project.config.resolve_path(declared.path), connect)
    source = FilesSource(declared, pa.schema([]), files, root, none_assigned)
    lacking = source.lacking(
        epoch.input for epoch in project.store.epochs.between(stream, first, last)
    )
    if lacking:
        raise PermanentError(
            f"{len(lacking)} input files of the epochs {first} to {last} of {stream} are gone from "
            f"{declared.path} or have changed, the first is {lacking[0]}",
            hint="put back the original files, or restore to an epoch with a newer snapshot",
        )


def _last_committed(project: Project, stream: str, at: float) -> LedgerEntry:
    entry = project.store.ledger.last_up_to(stream, at)
    if entry is None:
        time = datetime.fromtimestamp(at, UTC).isoformat()
        first = project.store.retention.floor(stream).first_epoch
        if first:
            raise PermanentError(
                f"{stream} cannot be restored to {time}: its epochs before {first} are pruned",
                hint=f"name a later time, or epoch {first} or a later one",
            )
        raise PermanentError(
            f"{stream} had committed nothing by {time}", hint="name a later time, or an epoch"
        )
    return entry


def _find_record(project: Project, stream: str, target: RestoreTarget) -> SnapshotRecord:
    listing = vault_of(project, stream, target).listing()
    for record in listing.snapshots:
        if record.id == target.snapshot:
            return record
    superseded = [record for record in listing.superseded if record.id == target.snapshot]
    causes = [f"was superseded {listing.find_superseding(record).cause}" for record in superseded]
    raise PermanentError(
        f"snapshot {target.snapshot} of {stream} {causes[0]}"
        if causes
        else f"there is no snapshot {target.snapshot} of {stream}",
        hint=f"run `holdfast snapshots list {stream}` for the valid ones",
    )


def _newest(project: Project, stream: str, target: RestoreTarget, *, up_to: int) -> Manifest | None:
    vault, restores = vault_of(project, stream, target), project.store.restores.of(stream)
    for record in vault.list():
        if record.epoch <= up_to and not _is_superseded(record, restores):
            manifest = _read_whole(vault, record)
            if manifest is not None:
                return manifest
    if target.place is not None:
        raise PermanentError(
            f"there is no snapshot of {stream} up to epoch {up_to} in {target.place}",
            hint="check the address, or restore to a later epoch",
        )
    return None


def _is_superseded(record: SnapshotRecord, restores: list[RestoreRow]) -> bool:
    """Whether a later restore has undone a snapshot; a copy of the object store may not have its mark."""
    return any(
        restore.begun and restore.history > record.history and restore.epoch < record.epoch
        for restore in restores
    )


def _read_whole(vault: SnapshotVault, record: SnapshotRecord) -> Manifest | None:
    try:
        manifest = vault.manifest(record.id)
    except UnusableSnapshotError:
        return None
    return None if vault.wrong_packs(manifest) else manifest


def _require_epochs(
    project: Project, stream: str, first: int, last: int, snapshot: Manifest | None
) -> None:
    """Refuse if the epoch log lacks an epoch that must be computed again."""
    logged = {row.epoch for row in project.store.epochs.between(stream, first, last)}
    missing = next(_find_missing(logged, first, last), None)
    if missing is not None:
        start = (
            "from epoch 0, as there is no snapshot" if snapshot is None else f"after {snapshot.id}"
        )
        raise PermanentError(
            f"the epoch log of {stream} lacks epoch {missing}: all epochs are computed {start}",
            hint="restore to an epoch with a newer snapshot: `holdfast snapshots list` shows them",
        )


def _find_missing(logged: set[int], first: int, last: int) -> Iterator[int]:
    return (epoch for epoch in range(first, last + 1) if epoch not in logged)
