"""Where a stream can go back to: the requested epoch, the snapshot to start from, and its price.

Everything that stands in the way is found here, before anything is touched.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from holdfast.configs.sources import FilesSource as FilesDeclaration
from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.control_store.records import LedgerEntry, RestoreRow
from holdfast.resources.object_store.resolve import connector, filesystem
from holdfast.resources.project import Project
from holdfast.resources.vault.manifest import Manifest, UnusableSnapshotError
from holdfast.resources.vault.records import SnapshotRecord
from holdfast.resources.vault.vault import SnapshotVault
from holdfast.streaming.sources.files import FilesSource


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreTarget:
    """A point in a stream's past as it was requested: by one of these, and where its snapshots are.

    Without `place` they are where the stream ships them.
    """

    epoch: int | None = None
    at: float | None = None
    snapshot: str | None = None
    place: str | None = None

    def __post_init__(self) -> None:
        if sum(one is not None for one in (self.epoch, self.at, self.snapshot)) > 1:
            raise PermanentError(
                "a point is named by one of epoch, time and snapshot",
                hint="leave all but one of them out",
            )

    @property
    def names_point(self) -> bool:
        """Whether the request says where to go back to."""
        return (self.epoch, self.at, self.snapshot) != (None, None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePoint:
    """An epoch that a stream can go back to, and what that undoes and computes again."""

    stream: str
    epoch: int
    snapshot: Manifest | None
    last_epoch: int
    last_decided: int
    undone_rows: int
    computed_rows: int

    @property
    def undone_epochs(self) -> int:
        """How many committed epochs lie behind the point."""
        return self.last_epoch - self.epoch

    @property
    def first_computed(self) -> int:
        """The epoch that follows the snapshot."""
        return 0 if self.snapshot is None else self.snapshot.epoch + 1

    @property
    def snapshot_id(self) -> str | None:
        """The snapshot to start from, if there is one."""
        return None if self.snapshot is None else self.snapshot.id


def point_numbers(point: RestorePoint) -> dict[str, Any]:
    """What going back to a point means, in numbers."""
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
    """Unix seconds of an ISO 8601 time; one without a zone is UTC."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError as error:
        raise PermanentError(
            f"{text!r} is not a time",
            hint="write it as 2026-11-17T02:30:00 (UTC) or with a zone, +01:00",
        ) from error
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()


def vault_of(world: Project, stream: str, target: RestoreTarget) -> SnapshotVault:
    """Where the snapshots are to come from."""
    return (
        world.vault(stream) if target.place is None else world.vault_elsewhere(target.place, stream)
    )


def epoch_of(world: Project, stream: str, target: RestoreTarget) -> int:
    """The committed epoch that is meant; an error if there is none."""
    last = world.store.ledger.last(stream)
    if last is None:
        raise PermanentError(
            f"{stream} has committed nothing yet, so there is nothing to go back to",
            hint=f"`holdfast status {stream}` tells how it fares",
        )
    if target.at is not None:
        return _committed_by(world, stream, target.at).epoch
    epoch = target.epoch if target.snapshot is None else _shipped(world, stream, target).epoch
    if epoch is None:
        raise PermanentError(
            "the request does not say where to go back to",
            hint="name an epoch, a time or a snapshot",
        )
    if epoch > last.epoch:
        raise PermanentError(
            f"epoch {epoch} of {stream} is not committed: the last one is {last.epoch}",
            hint=f"name an epoch up to {last.epoch}",
        )
    if world.store.ledger.get(stream, epoch) is None:
        raise PermanentError(
            f"epoch {epoch} of {stream} is not in the ledger",
            hint="name one of the epochs around it: the check `ledger_complete` tells which are missing",
        )
    return epoch


def find_point(world: Project, stream: str, target: RestoreTarget) -> RestorePoint:
    """The point that is meant, with the newest snapshot up to it that is whole."""
    store, epoch = world.store, epoch_of(world, stream, target)
    last, decided = store.ledger.last(stream), store.epochs.last(stream)
    last_epoch = epoch if last is None else last.epoch
    last_decided = last_epoch if decided is None else decided.epoch
    snapshot = _newest(world, stream, target, up_to=epoch)
    first = 0 if snapshot is None else snapshot.epoch + 1
    _require_epochs(world, stream, first, last_decided, snapshot)
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
    """A snapshot that is to come from elsewhere."""

    snapshot: str
    source: SnapshotVault


def to_fetch(world: Project, stream: str, target: RestoreTarget, epoch: int) -> Fetch | None:
    """The newest snapshot elsewhere up to an epoch, if it is to come from there and is not here yet."""
    if target.place is None:
        return None
    manifest = _newest(world, stream, target, up_to=epoch)
    if manifest is None or is_here(world, stream, manifest.id):
        return None
    return Fetch(manifest.id, vault_of(world, stream, target))


def is_here(world: Project, stream: str, snapshot: str) -> bool:
    """Whether a snapshot is among the stream's own, and all of it as far as a listing tells."""
    vault = world.vault(stream)
    listed = (record for record in vault.list() if record.id == snapshot)
    return any(_whole(vault, record) is not None for record in listed)


def require_source(world: Project, stream: str, first: int, last: int) -> None:
    """Refuse if input is gone that these epochs have to be computed from again."""
    declared = world.config.stream(stream).source
    if not isinstance(declared, FilesDeclaration):
        return
    connect = connector(world.config.deployment.object_store, world.config.home)
    files, root = filesystem(world.config.resolve_path(declared.path), connect)
    source = FilesSource(declared, pa.schema([]), files, root, set)
    lacking = source.lacking(one.input for one in world.store.epochs.between(stream, first, last))
    if lacking:
        raise PermanentError(
            f"{len(lacking)} input files of the epochs {first} to {last} of {stream} are gone from "
            f"{declared.path} or have changed, the first is {lacking[0]}",
            hint="put them back as they were, or go back to an epoch with a newer snapshot",
        )


def _committed_by(world: Project, stream: str, at: float) -> LedgerEntry:
    entry = world.store.ledger.last_up_to(stream, at)
    if entry is None:
        told = datetime.fromtimestamp(at, UTC).isoformat()
        raise PermanentError(
            f"{stream} had committed nothing by {told}", hint="name a later time, or an epoch"
        )
    return entry


def _shipped(world: Project, stream: str, target: RestoreTarget) -> SnapshotRecord:
    listing = vault_of(world, stream, target).listing()
    for record in listing.snapshots:
        if record.id == target.snapshot:
            return record
    superseded = [record for record in listing.superseded if record.id == target.snapshot]
    told = [f"was superseded {listing.superseded_by(record).cause}" for record in superseded]
    raise PermanentError(
        f"snapshot {target.snapshot} of {stream} {told[0]}"
        if told
        else f"there is no snapshot {target.snapshot} of {stream}",
        hint=f"`holdfast snapshots list {stream}` shows those that count",
    )


def _newest(world: Project, stream: str, target: RestoreTarget, *, up_to: int) -> Manifest | None:
    vault, restores = vault_of(world, stream, target), world.store.restores.of(stream)
    for record in vault.list():
        if record.epoch <= up_to and not _is_superseded(record, restores):
            manifest = _whole(vault, record)
            if manifest is not None:
                return manifest
    if target.place is not None:
        raise PermanentError(
            f"there is no snapshot of {stream} up to epoch {up_to} in {target.place}",
            hint="check the address, and whether a later epoch will do",
        )
    return None


def _is_superseded(record: SnapshotRecord, restores: list[RestoreRow]) -> bool:
    """Whether the control store knows better than a copy of the object store."""
    return any(
        one.begun and one.history > record.history and one.epoch < record.epoch for one in restores
    )


def _whole(vault: SnapshotVault, record: SnapshotRecord) -> Manifest | None:
    try:
        manifest = vault.manifest(record.id)
    except UnusableSnapshotError:
        return None
    return None if vault.wrong_packs(manifest) else manifest


def _require_epochs(
    world: Project, stream: str, first: int, last: int, snapshot: Manifest | None
) -> None:
    """Refuse if the epoch log does not have all that is to be computed again."""
    there = {one.epoch for one in world.store.epochs.between(stream, first, last)}
    missing = next(_lacking(there, first, last), None)
    if missing is not None:
        start = (
            "from epoch 0, there being no snapshot" if snapshot is None else f"after {snapshot.id}"
        )
        raise PermanentError(
            f"the epoch log of {stream} lacks epoch {missing}, and all is computed {start}",
            hint="go back to an epoch with a newer snapshot: `holdfast snapshots list` shows them",
        )


def _lacking(there: set[int], first: int, last: int) -> Iterator[int]:
    return (epoch for epoch in range(first, last + 1) if epoch not in there)
