"""The prove playbook: proves a snapshot by computing the epoch after it again."""

import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.playbooks.prove import (
    ProveFacts,
    ProveStep,
    Recompute,
    RecordProof,
    RestoreScratch,
    next_step,
)
from holdfast.orchestration.playbooks.base import StepResult, StreamPlaybook
from holdfast.orchestration.playbooks.launch import build_spec
from holdfast.orchestration.playbooks.recompute import find_newest_provable, recompute
from holdfast.resources.control_store.records import Slot, SnapshotRow
from holdfast.resources.project import Project


@dataclass(frozen=True, slots=True, kw_only=True)
class ScratchRestored(StepResult):
    """The size of the restored checkpoint."""

    files: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRecomputed(StepResult):
    """The output of the epoch, which is the same as was committed."""

    rows: int
    digest: str


@dataclass(kw_only=True)
class Prove(StreamPlaybook[ProveFacts, ProveStep]):
    """Prove a snapshot; without an id the newest one after which an epoch was committed.

    After a crash it begins again; only a scratch folder is left of it.
    """

    name: ClassVar = "restore_drill"  # as journals have it
    snapshot: str | None = None
    _facts: ProveFacts | None = field(default=None, init=False)
    _began: float = field(default=0.0, init=False)

    def begin(self) -> None:
        self._began = self.project.clock.monotonic()
        self._facts = self.preview()

    def preview(self) -> ProveFacts:
        row = self.row()
        return ProveFacts(snapshot=row.id, epoch=row.epoch)

    def row(self) -> SnapshotRow:
        """The snapshot to prove; raises if there is none."""
        self.project.config.stream(self.stream)
        return require_provable(self.project, self.stream, self.snapshot)

    def observe(self) -> ProveFacts:
        """The progress of this run: no other run could continue it."""
        assert self._facts is not None, "a playbook is begun first"  # noqa: S101
        return self._facts

    def decide(self, facts: ProveFacts) -> ProveStep | None:
        return next_step(facts)

    def act(self, step: ProveStep) -> StepResult:
        result = self._perform(step)
        facts = step.after(self.observe())
        self._facts = replace(facts, seconds=self.project.clock.monotonic() - self._began)
        return result

    def _perform(self, step: ProveStep) -> StepResult:
        match step:
            case RestoreScratch():
                return self._restore(step.snapshot)
            case Recompute():
                return self._recompute(step.epoch)
            case RecordProof():
                self.project.store.snapshots.record_proof(self.stream, step.snapshot, step.seconds)
                return StepResult()

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _restore(self, snapshot: str) -> ScratchRestored:
        vault = self.project.vault(self.stream)
        restored = vault.restore(vault.manifest(snapshot), self._checkpoint, durable=False)
        return ScratchRestored(files=restored.files, bytes=restored.bytes)

    def _recompute(self, epoch: int) -> EpochRecomputed:
        row = self.project.store.streams.get(self.stream)
        entry = self.project.store.ledger.get(self.stream, epoch)
        assert row is not None, "a stream with snapshots was declared"  # noqa: S101
        assert entry is not None, "the snapshot was chosen so"  # noqa: S101
        stream = StreamDeclaration.model_validate(row.declaration)
        spec = build_spec(
            self.project.config, stream, Slot.SECONDARY, self._folder.name, self._folder
        )
        computed = recompute(self.project, spec, self._checkpoint, epoch)
        if computed.digest != entry.digest:
            raise PermanentError(
                f"{self.observe().snapshot} is not proven: epoch {epoch} was computed as {computed.digest} "
                f"({computed.rows} rows), but {entry.digest} ({entry.rows} rows) was committed",
                hint="check whether the job is deterministic, and whether its code was changed since",
            )
        return EpochRecomputed(rows=computed.rows, digest=computed.digest)

    @property
    def _folder(self) -> Path:
        return self.project.config.home / "drills" / f"{self.stream}-{self.run}"

    @property
    def _checkpoint(self) -> Path:
        return self._folder / "checkpoint"


def require_provable(project: Project, stream: str, snapshot: str | None = None) -> SnapshotRow:
    """The snapshot to prove; raises if there is none."""
    rows = [row for row in project.store.snapshots.of(stream) if snapshot in (None, row.id)]
    if not rows:
        raise PermanentError(
            f"{stream} has no available snapshot {snapshot or ''}".rstrip(),
            hint=f"run `holdfast snapshots list {stream}` for those it has",
        )
    newest = find_newest_provable(project, stream, rows)
    if newest is None:
        raise PermanentError(
            f"no epoch of {stream} was committed after {snapshot or 'any of its snapshots'}",
            hint="try again after the next epoch: a proof computes the epoch after the snapshot",
        )
    return newest
