"""What a repair has set aside or written, kept until it is confirmed or undone.

A record in the object store says what was where. It is written before anything is done, so whatever
a run that died has come to can be undone; and it goes last, so that an undoing that died can be
repeated.
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

from holdfast.configs.sinks import DeltaSink
from holdfast.ft_policies.doctor.facts import TableCommit
from holdfast.ft_policies.errors import PermanentError
from holdfast.observation.doctor.examine import running_declaration
from holdfast.resources.control_store.records import SnapshotState
from holdfast.resources.control_store.tables.epochs import gone_on
from holdfast.resources.object_store.connection import S3Connection
from holdfast.resources.object_store.resolve import connector, filesystem
from holdfast.resources.object_store.s3 import MissingObjectError, ObjectStore
from holdfast.resources.project import Project
from holdfast.resources.vault.listing import aside_prefix

RECORD = "record.json"


@dataclass(slots=True)
class Record:
    """Objects and folders as they were named, rows of the catalogue as they were, epochs entered.

    `gap` tells that input was skipped; which, the control store has.
    """

    objects: list[str] = field(default_factory=list)
    folders: dict[str, str] = field(default_factory=dict)
    rows: dict[str, dict[str, str] | None] = field(default_factory=dict)
    epochs: dict[str, str] = field(default_factory=dict)
    gap: bool = False


@dataclass(slots=True)
class Quarantine:
    """What one run has set aside of one stream."""

    world: Project
    stream: str
    run: str
    _objects: ObjectStore = field(init=False)

    def __post_init__(self) -> None:
        self._objects = self.world.object_store()

    def move_objects(self, keys: Sequence[str]) -> int:
        """Move objects, in this order; copies are there before the first one goes."""
        self._note(lambda record: record.objects.extend(k for k in keys if k not in record.objects))
        copied = [key for key in keys if _copy_object(self._objects, key, self._kept(key))]
        for key in copied:
            self._objects.delete([key])
        return len(copied)

    def move_folders(self, paths: Sequence[str]) -> int:
        """Move folders; one that is gone was moved before."""
        targets = {path: self._target(path) for path in paths}
        self._note(lambda record: record.folders.update(targets))
        return sum(self._move(path, target) for path, target in targets.items())

    def keep_folder(self, path: Path, *, below: Path) -> None:
        """Keep the files of a local folder, which stays as it is: a replica may still write to it, or the next launch remove it.

        They get names in a folder `below` which the other is, too: on the same disk.
        """
        target = below / "aside" / self.run / path.relative_to(below)
        self._note(lambda record: record.folders.update({str(path): str(target)}))
        _link_folder(path, target)

    def keep_rows(self, snapshots: Iterable[str]) -> None:
        """Note what the catalogue says of snapshots, before that is changed."""
        known = {one: self.world.store.snapshots.get(self.stream, one) for one in snapshots}
        was = {
            one: None if row is None else {"state": row.state.value, "reason": row.reason}
            for one, row in known.items()
        }
        self._note(lambda record: record.rows.update({**was, **record.rows}))

    def keep_epochs(self, commits: Iterable[TableCommit]) -> None:
        """Note which epochs are about to be entered into the ledger, and for whom."""
        entered = {str(one.epoch): one.replica for one in commits}
        self._note(lambda record: record.epochs.update(entered))

    def keep_gap(self) -> None:
        """Note that input is about to be skipped."""
        self._note(lambda record: setattr(record, "gap", True))

    def undo(self) -> Record:
        """Put everything back where and as it was; what is there again meanwhile is left alone."""
        record, store = self._known(), self.world.store
        if record.gap:
            self._close_gaps()
        for key in reversed(record.objects):  # a manifest comes after its packs
            if not _has_object(self._objects, key):
                _copy_object(self._objects, self._kept(key), key)
        for path, target in record.folders.items():
            self._move(target, path)
        for snapshot, was in record.rows.items():
            if was is None:
                store.snapshots.forget(self.stream, snapshot)
            else:
                state, reason = SnapshotState(was["state"]), was["reason"]
                store.snapshots.mark(self.stream, snapshot, state, reason)
        for epoch, replica in record.epochs.items():
            store.auditing.withdraw(self.stream, int(epoch), replica)
        self._let_go(record)
        return record

    def _close_gaps(self) -> None:
        """Unless a snapshot was made without what was skipped: the next start would go on from it."""
        store, vault = self.world.store, self.world.vault(self.stream)
        for gap in (one for one in store.gaps.of(self.stream) if one.run == self.run):
            later = [one.id for one in vault.list() if one.epoch >= gap.first_epoch]
            if any(vault.manifest(one).created_at > gap.opened_at for one in later):
                raise gone_on(gap)
        store.gaps.close(self.stream, run=self.run)

    def confirm(self) -> Record:
        """Delete what was set aside, for good."""
        record = self._known()
        self._let_go(record)
        return record

    def _let_go(self, record: Record) -> None:
        for root in {self._root_of(target) for target in record.folders.values()}:
            _delete_folder(root, self._connect)
        kept = [one.key for one in self._objects.list(self._prefix) if one.key != self._record]
        self._objects.delete(kept)
        self._objects.delete([self._record])

    def _known(self) -> Record:
        record = self._read()
        if record is None:
            runs = ", ".join(quarantined_runs(self.world, self.stream)) or "none"
            raise PermanentError(
                f"the run {self.run} has set nothing of {self.stream} aside",
                hint=f"runs that have: {runs}",
            )
        return record

    def _read(self) -> Record | None:
        try:
            body = self._objects.get(self._record)
        except MissingObjectError:
            return None
        return Record(**json.loads(body))

    def _note(self, change: Callable[[Record], Any]) -> None:
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
            hint="move it yourself",
        )

    def _root_of(self, target: str) -> str:
        """The folder of this run that it is in."""
        return f"{target.partition(f'/{self.run}/')[0]}/{self.run}"

    def _roots(self) -> dict[str, str]:
        """Where folders go: beside the table what was staged for it, so that no disk is crossed."""
        project, roots = self.world.config, dict[str, str]()
        declared = running_declaration(self.world, self.stream)
        if isinstance(declared.sink, DeltaSink):
            table = project.table_path(declared)
            roots[table] = f"{table}/_aside/{self.run}"
        if declared.resources.folder is not None:  # it may be on another disk
            replicas = project.replicas_folder(declared)
            roots[str(replicas)] = str(replicas / "aside" / self.run)
        return {**roots, str(project.home): str(project.home / "aside" / self.run)}

    @property
    def _connect(self) -> Callable[[], S3Connection]:
        project = self.world.config
        return connector(project.deployment.object_store, project.home)

    def _kept(self, key: str) -> str:
        return self._prefix + key.removeprefix(f"{self.stream}/")

    @property
    def _prefix(self) -> str:
        return f"{aside_prefix(self.stream)}{self.run}/"

    @property
    def _record(self) -> str:
        return self._prefix + RECORD


def quarantined_runs(world: Project, stream: str) -> list[str]:
    """The runs whose repairs are neither confirmed nor undone."""
    listed = world.object_store().list(aside_prefix(stream))
    return sorted({one.key.removeprefix(aside_prefix(stream)).split("/")[0] for one in listed})


def summary(record: Record) -> Mapping[str, int]:
    """How many things a record is about, by their kind."""
    return {
        "objects": len(record.objects),
        "folders": len(record.folders),
        "catalogue_rows": len(record.rows),
        "ledger_entries": len(record.epochs),
        "gaps": int(record.gap),
    }


def _has_object(objects: ObjectStore, key: str) -> bool:
    """Whether an object is there."""
    return any(row.key == key for row in objects.list(key))


def _copy_object(objects: ObjectStore, key: str, to: str) -> bool:
    """Copy an object through a file, since it may be large; false if there is none."""
    with tempfile.TemporaryFile() as body:
        try:
            body.writelines(objects.read(key))
        except MissingObjectError:
            return False
        body.seek(0)
        objects.put(to, body)
    return True


def _move_folder(origin: str, target: str, connect: Callable[[], S3Connection]) -> bool:
    """Move a folder of a disk or of S3; what is there already stays, and what is gone was moved."""
    files, source = filesystem(origin, connect)
    _, goal = filesystem(target, connect)
    if not isinstance(files, fs.LocalFileSystem):
        return _move_files(files, source, goal)
    if _is_there(files, goal) or not _is_there(files, source):
        return False
    Path(goal).parent.mkdir(parents=True, exist_ok=True)
    Path(source).rename(goal)
    return True


def _link_folder(origin: Path, target: Path) -> None:
    """Give the files of a folder a second name each, so that they outlive it; what goes meanwhile may go."""
    for folder, _, names in os.walk(origin):
        goal = target / Path(folder).relative_to(origin)
        goal.mkdir(parents=True, exist_ok=True)
        for name in names:
            with suppress(FileExistsError, FileNotFoundError):
                os.link(Path(folder, name), goal / name)


def _delete_folder(folder: str, connect: Callable[[], S3Connection]) -> None:
    """Delete a folder with everything in it, if it is there."""
    files, path = filesystem(folder, connect)
    if _is_there(files, path):
        files.delete_dir(path)


def _move_files(files: fs.FileSystem, source: str, goal: str) -> bool:
    chosen = fs.FileSelector(source, recursive=True, allow_not_found=True)
    paths = [info.path for info in files.get_file_info(chosen) if info.is_file]
    for path in paths:
        target = goal + path.removeprefix(source)
        if not _is_there(files, target):
            files.move(path, target)
    return bool(paths)


def _is_there(files: fs.FileSystem, path: str) -> bool:
    return bool(files.get_file_info(path).type is not fs.FileType.NotFound)
