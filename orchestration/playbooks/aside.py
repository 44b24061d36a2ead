"""What a repair has set aside or written, kept until somebody confirms it or takes it back.

A record in the object store says what was where. It is written before anything is done, so whatever
a run that died has come to can be undone; and it goes last, so that an undoing that died can be
repeated.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from assets.examination.examining import running_declaration
from configs.sinks import DeltaSink
from ft_policies.doctor.facts import TableCommit
from ft_policies.errors import PermanentError
from orchestration.playbooks.moving import (
    copy_object,
    delete_folder,
    has_object,
    link_folder,
    move_folder,
)
from resources.control.gaps import gone_on
from resources.control.records import SnapshotState
from resources.object_store.connection import S3Connection
from resources.object_store.resolve import connector
from resources.object_store.s3 import MissingObjectError, ObjectStore
from resources.project import Project
from resources.vault.listing import aside_prefix
from streaming.launching import replicas_folder

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
class Aside:
    """What one run has set aside of one stream."""

    world: Project
    stream: str
    run: str
    _objects: ObjectStore = field(init=False)

    def __post_init__(self) -> None:
        self._objects = self.world.object_store()

    def set_objects(self, keys: Sequence[str]) -> int:
        """Move objects, in this order; copies are there before the first one goes."""
        self._note(lambda record: record.objects.extend(k for k in keys if k not in record.objects))
        copied = [key for key in keys if copy_object(self._objects, key, self._kept(key))]
        for key in copied:
            self._objects.delete([key])
        return len(copied)

    def set_folders(self, paths: Sequence[str]) -> int:
        """Move folders; one that is gone was moved before."""
        targets = {path: self._target(path) for path in paths}
        self._note(lambda record: record.folders.update(targets))
        return sum(self._move(path, target) for path, target in targets.items())

    def keep_folder(self, path: Path, *, below: Path) -> None:
        """Keep the files of a local folder, which stays as it is: somebody may still write to it, or sweep it away.

        They get names in a folder `below` which the other is, too: on the same disk.
        """
        target = below / "aside" / self.run / path.relative_to(below)
        self._note(lambda record: record.folders.update({str(path): str(target)}))
        link_folder(path, target)

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
            if not has_object(self._objects, key):
                copy_object(self._objects, self._kept(key), key)
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
            delete_folder(root, self._connect)
        kept = [one.key for one in self._objects.list(self._prefix) if one.key != self._record]
        self._objects.delete(kept)
        self._objects.delete([self._record])

    def _known(self) -> Record:
        record = self._read()
        if record is None:
            runs = ", ".join(runs_aside(self.world, self.stream)) or "none"
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
        return move_folder(origin, target, self._connect)

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
            replicas = replicas_folder(project, declared)
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


def runs_aside(world: Project, stream: str) -> list[str]:
    """The runs whose repairs nobody has confirmed or undone."""
    listed = world.object_store().list(aside_prefix(stream))
    return sorted({one.key.removeprefix(aside_prefix(stream)).split("/")[0] for one in listed})


def told(record: Record) -> Mapping[str, int]:
    """How much a record is about."""
    return {
        "objects": len(record.objects),
        "folders": len(record.folders),
        "catalogue_rows": len(record.rows),
        "ledger_entries": len(record.epochs),
        "gaps": int(record.gap),
    }
