"""Keeps what a repair has set aside or written, until the repair is confirmed or undone.

A record in the object store says what was where. It is written before anything is changed, so the work
of a run that died can be undone; and it is deleted last, so that an interrupted undo can be repeated.
"""

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyarrow import fs

from holdfast.configs.declarations.sinks import DeltaSink
from holdfast.ft_policies.doctor.facts import TableCommit
from holdfast.ft_policies.errors import PermanentError
from holdfast.observation.doctor.examine import running_declaration
from holdfast.resources.control_store.records import SnapshotState
from holdfast.resources.control_store.tables.epochs.log import gap_in_use_error
from holdfast.resources.object_store.connection import S3Connection
from holdfast.resources.object_store.resolve import connector, open_filesystem
from holdfast.resources.object_store.s3 import MissingObjectError, ObjectStore
from holdfast.resources.project import Project
from holdfast.resources.vault.objects.listing import aside_prefix

RECORD = "record.json"


@dataclass(slots=True)
class Record:
    """Objects and folders as they were named, rows of the catalogue as they were, epochs entered.

    `gap` says that input was skipped; the control store says which.
    """

    objects: list[str] = field(default_factory=list)
    folders: dict[str, str] = field(default_factory=dict)
    rows: dict[str, dict[str, str] | None] = field(default_factory=dict)
    epochs: dict[str, str] = field(default_factory=dict)
    gap: bool = False


@dataclass(slots=True)
class Quarantine:
    """What one run has set aside for one stream."""

    project: Project
    stream: str
    run: str
    _objects: ObjectStore = field(init=False)

    def __post_init__(self) -> None:
        self._objects = self.project.object_store()

    def move_objects(self, keys: Sequence[str]) -> int:
        """Move objects, in this order; all copies exist before the first one is deleted."""
        self._update_record(
            lambda record: record.objects.extend(k for k in keys if k not in record.objects)
        )
        copied = [key for key in keys if _copy_object(self._objects, key, self._aside_key(key))]
        for key in copied:
            self._objects.delete([key])
        return len(copied)

    def move_folders(self, paths: Sequence[str]) -> int:
        """Move folders; a missing one was moved before."""
        targets = {path: self._target(path) for path in paths}
        self._update_record(lambda record: record.folders.update(targets))
        return sum(self._move(path, target) for path, target in targets.items())

    def keep_folder(self, path: Path, *, below: Path) -> None:
        """Link the files of a local folder, which a replica may still write to, or the next launch may remove.

        The links are in a folder under `below`, as the other folder is: on the same disk.
        """
        target = below / "aside" / self.run / path.relative_to(below)
        self._update_record(lambda record: record.folders.update({str(path): str(target)}))
        _link_folder(path, target)

    def keep_rows(self, snapshots: Iterable[str]) -> None:
        """Record the catalogue rows of snapshots, before they are changed."""
        catalogue = self.project.store.snapshots
        rows = {snapshot: catalogue.get(self.stream, snapshot) for snapshot in snapshots}
        before = {
            snapshot: None if row is None else {"state": row.state.value, "reason": row.reason}
            for snapshot, row in rows.items()
        }
        self._update_record(lambda record: record.rows.update({**before, **record.rows}))

    def keep_epochs(self, commits: Iterable[TableCommit]) -> None:
        """Record the epochs that are about to be entered into the ledger, and their replicas."""
        entered = {str(commit.epoch): commit.replica for commit in commits}
        self._update_record(lambda record: record.epochs.update(entered))

    def keep_gap(self) -> None:
        """Record that input is about to be skipped."""
        self._update_record(lambda record: setattr(record, "gap", True))

    def undo(self) -> Record:
        """Put everything back; what exists again in its old place is not overwritten."""
        record, store = self._require_record(), self.project.store
        if record.gap:
            self._close_gaps()
        for key in reversed(record.objects):  # a manifest comes after its packs
            if not _has_object(self._objects, key):
                _copy_object(self._objects, self._aside_key(key), key)
        for path, target in record.folders.items():
            self._move(target, path)
        for snapshot, before in record.rows.items():
            if before is None:
                store.snapshots.forget(self.stream, snapshot)
            else:
                state, reason = SnapshotState(before["state"]), before["reason"]
                store.snapshots.mark(self.stream, snapshot, state, reason)
        for epoch, replica in record.epochs.items():
            store.auditing.withdraw(self.stream, int(epoch), replica)
        self._delete(record)
        return record

    def _close_gaps(self) -> None:
        """Close the gaps of this run; raises if a later snapshot lacks the skipped input.

        The next start would continue from that snapshot.
        """
        store, vault = self.project.store, self.project.vault(self.stream)
        for gap in (gap for gap in store.gaps.of(self.stream) if gap.run == self.run):
            later = [record.id for record in vault.list() if record.epoch >= gap.first_epoch]
            if any(vault.manifest(snapshot).created_at > gap.opened_at for snapshot in later):
                raise gap_in_use_error(gap)
        store.gaps.close(self.stream, run=self.run)

    def confirm(self) -> Record:
        """Delete for good what was set aside."""
        record = self._require_record()
        self._delete(record)
        return record

    def _delete(self, record: Record) -> None:
        for root in {self._root_of(target) for target in record.folders.values()}:
            _delete_folder(root, self._connect)
        kept = [row.key for row in self._objects.list(self._prefix) if row.key != self._record]
        self._objects.delete(kept)
        self._objects.delete([self._record])

    def _require_record(self) -> Record:
        record = self._read()
        if record is None:
            runs = ", ".join(list_quarantined_runs(self.project, self.stream)) or "none"
            raise PermanentError(
                f"the run {self.run} has set nothing of {self.stream} aside",
                hint=f"name one of the runs that have: {runs}",
            )
        return record

    def _read(self) -> Record | None:
        try:
            body = self._objects.get(self._record)
        except MissingObjectError:
            return None
        return Record(**json.loads(body))

    def _update_record(self, change: Callable[[Record], Any]) -> None:
        record = self._read() or Record()
        change(record)
        self._objects.put(self._record, json.dumps(asdict(record)).encode())

    def _move(self, origin: str, target: str) -> bool:
        return _move_folder(origin, target, self._connect)

    def _target(self, path: str) -> str:
        for origin, root in self._roots().items():
            if path.startswith(f"{origin}/"):
                return root + path.removeprefix(origin)
        raise PermanentError(
            f"{path} is neither in the home folder nor in the table of {self.stream}",
            hint="move it by hand",
        )

    def _root_of(self, target: str) -> str:
        """The folder of this run that contains a target."""
        return f"{target.partition(f'/{self.run}/')[0]}/{self.run}"

    def _roots(self) -> dict[str, str]:
        """Where folders are moved to, by their root: on the same disk, staged files beside their table."""
        config, roots = self.project.config, dict[str, str]()
        declared = running_declaration(self.project, self.stream)
        if isinstance(declared.sink, DeltaSink):
            table = config.table_path(declared)
            roots[table] = f"{table}/_aside/{self.run}"
        if declared.resources.folder is not None:  # it may be on another disk
            replicas = config.replicas_folder(declared)
            roots[str(replicas)] = str(replicas / "aside" / self.run)
        return {**roots, str(config.home): str(config.home / "aside" / self.run)}

    @property
    def _connect(self) -> Callable[[], S3Connection]:
        config = self.project.config
        return connector(config.deployment.object_store, config.home)

    def _aside_key(self, key: str) -> str:
        return self._prefix + key.removeprefix(f"{self.stream}/")

    @property
    def _prefix(self) -> str:
        return f"{aside_prefix(self.stream)}{self.run}/"

    @property
    def _record(self) -> str:
        return self._prefix + RECORD


def list_quarantined_runs(project: Project, stream: str) -> list[str]:
    """The runs whose repairs are neither confirmed nor undone."""
    objects = project.object_store().list(aside_prefix(stream))
    return sorted({row.key.removeprefix(aside_prefix(stream)).split("/")[0] for row in objects})


def summary(record: Record) -> Mapping[str, int]:
    """Count what a record contains, by kind."""
    return {
        "objects": len(record.objects),
        "folders": len(record.folders),
        "catalogue_rows": len(record.rows),
        "ledger_entries": len(record.epochs),
        "gaps": int(record.gap),
    }


def _has_object(objects: ObjectStore, key: str) -> bool:
    return any(row.key == key for row in objects.list(key))


def _copy_object(objects: ObjectStore, key: str, to: str) -> bool:
    """Copy an object through a file, since it may be large; return false if there is none."""
    with tempfile.TemporaryFile() as body:
        try:
            body.writelines(objects.read(key))
        except MissingObjectError:
            return False
        body.seek(0)
        objects.put(to, body)
    return True


def _move_folder(origin: str, target: str, connect: Callable[[], S3Connection]) -> bool:
    """Move a folder on a disk or in S3; an existing target stays, and a missing source was moved before."""
    files, source = open_filesystem(origin, connect)
    _, goal = open_filesystem(target, connect)
    if not isinstance(files, fs.LocalFileSystem):
        return _move_files(files, source, goal)
    if _exists(files, goal) or not _exists(files, source):
        return False
    Path(goal).parent.mkdir(parents=True, exist_ok=True)
    Path(source).rename(goal)
    return True


def _link_folder(origin: Path, target: Path) -> None:
    """Link the files of a folder, so that they outlive it; files that vanish meanwhile are skipped."""
    for folder, _, names in os.walk(origin):
        goal = target / Path(folder).relative_to(origin)
        goal.mkdir(parents=True, exist_ok=True)
        for name in names:
            with suppress(FileExistsError, FileNotFoundError):
                os.link(Path(folder, name), goal / name)


def _delete_folder(folder: str, connect: Callable[[], S3Connection]) -> None:
    """Delete a folder with its content, if it exists."""
    files, path = open_filesystem(folder, connect)
    if _exists(files, path):
        files.delete_dir(path)


def _move_files(files: fs.FileSystem, source: str, goal: str) -> bool:
    chosen = fs.FileSelector(source, recursive=True, allow_not_found=True)
    paths = [info.path for info in files.get_file_info(chosen) if info.is_file]
    for path in paths:
        target = goal + path.removeprefix(source)
        if not _exists(files, target):
            files.move(path, target)
    return bool(paths)


def _exists(files: fs.FileSystem, path: str) -> bool:
    return bool(files.get_file_info(path).type is not fs.FileType.NotFound)
