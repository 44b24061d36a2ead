"""The fork playbook: a new stream with the past of another up to an epoch; the original is only read."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from holdfast.configs.fork import ForkedDeclaration, declare_fork
from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.playbooks.fork import (
    CopyEpochs,
    CopyOutput,
    CopySnapshot,
    ForkFacts,
    ForkStep,
    WriteDeclaration,
    next_step,
)
from holdfast.orchestration.playbooks.base import JournalWriter, StepResult, StreamPlaybook
from holdfast.orchestration.playbooks.declaration import require_same_past
from holdfast.orchestration.playbooks.restore.point import (
    RestorePoint,
    RestoreTarget,
    find_point,
    require_source,
    vault_of,
)
from holdfast.orchestration.playbooks.restore.restore import SnapshotCopied
from holdfast.resources.object_store.resolve import connector
from holdfast.resources.vault import catalogue
from holdfast.resources.vault.objects.manifest import SnapshotName
from holdfast.resources.vault.vault import SnapshotVault
from holdfast.streaming.sinks.delta.copy import TableCopy
from holdfast.streaming.sinks.delta.lineage import dead_letter_writer, writer
from holdfast.streaming.sinks.output import require_conditional_writes


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputCopied(StepResult):
    """How many files were copied; `None` where that was done before."""

    files: int | None = None
    dead_letters: int | None = None


@dataclass(frozen=True, slots=True)
class EpochsCopied(StepResult):
    """How many entries of the ledger the fork has."""

    entries: int


@dataclass(frozen=True, slots=True)
class DeclarationWritten(StepResult):
    """The file that declares the fork."""

    file: str


@dataclass(kw_only=True)
class Fork(StreamPlaybook[ForkFacts, ForkStep]):
    """Fork a stream at a point under the name `into`; the fork is not started."""

    name: ClassVar = "fork"
    into: str
    target: RestoreTarget
    output: str | None = None

    def begin(self) -> None:
        self.project.ensure_object_store()
        require_same_past(self.project, self.stream, done="forked")
        self._require_possible()

    def preview(self) -> ForkFacts:
        self.begin()  # which changes nothing
        return self.observe()

    @cached_property
    def point(self) -> RestorePoint:
        return find_point(self.project, self.stream, self.target)

    @cached_property
    def declaration(self) -> ForkedDeclaration:
        """The declaration of the fork, which is written last."""
        return declare_fork(
            self.project.config.root, self.stream, name=self.into, output=self.output
        )

    def observe(self) -> ForkFacts:
        """Observe which parts of the fork exist; raises if there is anything else under its name."""
        return ForkFacts(
            epoch=self.point.epoch,
            snapshot=self.point.snapshot_id,
            file=str(self.declaration.file.relative_to(self.project.config.root)),
            has_snapshot=self._has_snapshot(),
            has_output=self._has_output(),
            has_epochs=self._has_epochs(),
            declared=self.declaration.is_written(),
        )

    def decide(self, facts: ForkFacts) -> ForkStep | None:
        return next_step(facts)

    def act(self, step: ForkStep) -> StepResult:
        match step:
            case CopySnapshot():
                return self._copy_snapshot(step.snapshot)
            case CopyOutput():
                return self._copy_output()
            case CopyEpochs():
                copy = self.project.store.forks.copy
                return EpochsCopied(copy(self.stream, into=self.into, through_epoch=step.epoch))
            case WriteDeclaration():
                self.declaration.write()
                return DeclarationWritten(step.file)

    def journal(self) -> JournalWriter:
        """The writer for the journal of the fork, not of the original."""
        return replace(super().journal(), stream=self.into)

    def _copy_snapshot(self, snapshot: str) -> SnapshotCopied:
        """Copy a snapshot, and remove an older one that an earlier attempt has copied."""
        manifest = self._snapshots.manifest(snapshot)
        copied = catalogue.adopt(self.project, self.into, manifest, self._snapshots)
        for older in self._copies() - {_copied_id(manifest.name)}:
            catalogue.forget(self.project, self.into, older)
        return SnapshotCopied(**copied)

    def _copy_output(self) -> OutputCopied:
        files = dead_letters = None
        for copied in filter(None, (self._table, self._dead_letters)):
            require_conditional_writes(self.project.store, copied.target, copied.connect)
        if not self._table.is_done():
            files = self._table.copy(self.point.later_entries(self.project))
        if (table := self._dead_letters) is not None and not table.is_done():
            dead_letters = table.copy_dead_letters()
        return OutputCopied(files=files, dead_letters=dead_letters)

    def _has_output(self) -> bool:
        dead_letters = self._dead_letters
        return self._table.is_done() and (dead_letters is None or dead_letters.is_done())

    def _has_snapshot(self) -> bool:
        """Whether the snapshot of the point is copied, and no other one."""
        snapshot, copies = self.point.snapshot, self._copies()
        return snapshot is not None and copies == {_copied_id(snapshot.name)}

    def _copies(self) -> set[str]:
        """The ids of the copied snapshots; raises if there is one that the original does not have."""
        ids = {record.id for record in self.project.vault(self.into).list()}
        records = self._snapshots.list()
        originals = [record.name for record in records if record.epoch <= self.point.epoch]
        if self.point.snapshot is not None:  # retention may have dropped it meanwhile
            originals.append(self.point.snapshot.name)
        if foreign := ids - set(map(_copied_id, originals)):
            raise PermanentError(
                f"there are snapshots of a stream {self.into} already: one is {min(foreign)}",
                hint="fork under another name",
            )
        return ids

    def _has_epochs(self) -> bool:
        """Whether all epochs are copied, the last entry of the ledger last; raises if there are others."""
        store, point = self.project.store, self.point
        last, entry = store.epochs.last(self.into), store.ledger.last(self.into)
        if last is None and entry is None:
            return False
        original = None if last is None else store.epochs.get(self.stream, last.epoch)
        same = last is not None and original is not None and last.decided_at == original.decided_at
        if not same or last is None or last.epoch > point.epoch:
            raise PermanentError(
                f"there are epochs of a stream {self.into} already",
                hint="fork under another name",
            )
        return entry is not None and entry.epoch == point.epoch

    @cached_property
    def _snapshots(self) -> SnapshotVault:
        """The vault with the snapshots of the original."""
        return vault_of(self.project, self.stream, self.target)

    @property
    def _table(self) -> TableCopy:
        config = self.project.config
        source, target = (
            config.table_path(self.stream),
            config.table_path(self.declaration.model),
        )
        return self._copy(source, target, writer(self.into, 0))

    @property
    def _dead_letters(self) -> TableCopy | None:
        config = self.project.config
        source = config.dead_letters_path(self.stream)
        target = config.dead_letters_path(self.declaration.model)
        if source is None or target is None:
            return None
        return self._copy(source, target, dead_letter_writer(self.into, 0))

    def _copy(self, source: str, target: str, name: str) -> TableCopy:
        config = self.project.config
        return TableCopy(
            source=source,
            target=target,
            stream=self.into,
            writer=name,
            epoch=self.point.epoch,
            connect=connector(config.deployment.object_store, config.home),
            keep_seconds=config.deployment.retention.table_versions,
        )

    def _require_possible(self) -> None:
        """Refuse a fork that is impossible, before anything is written."""
        declaration, point = (
            self.declaration,
            self.point,
        )  # the declaration first: it may be refused
        if self.into in self.project.config.streams or declaration.is_written():
            raise PermanentError(
                f"there is a stream {self.into} already", hint="fork under another name"
            )
        declaration.require_fit()
        self._table.require_copyable(point.later_entries(self.project))
        require_source(self.project, self.stream, point.first_computed, point.epoch)
        self.observe()


def _copied_id(name: SnapshotName) -> str:
    """The id of the copy: a fork begins with history 0."""
    return replace(name, history=0).id
