"""The restore drill, performed: the newest snapshot, or a chosen one, proven by going on from it."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from configs.stream import StreamDeclaration
from ft_policies.errors import PermanentError
from ft_policies.restore_drill import (
    NoteProof,
    Observed,
    Recompute,
    RestoreScratch,
    Step,
    foreseen,
    next_step,
)
from orchestration.playbooks.performing import Journaled, Performed, perform
from resources.clock import SYSTEM_CLOCK
from resources.control.records import Slot, SnapshotRow
from resources.project import Project
from streaming.launching import spec_of
from streaming.recomputing import recompute

PLAYBOOK = "restore_drill"


@dataclass(slots=True)
class RestoreDrill:
    """One snapshot of one stream on its way to a proof; its scratch folder goes when it ends."""

    world: Project
    stream: str
    run: str
    snapshot: SnapshotRow
    _seen: Observed = field(init=False)
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        self._seen = Observed(snapshot=self.snapshot.id, epoch=self.snapshot.epoch)
        self._began = SYSTEM_CLOCK.monotonic()

    def steps(self) -> Iterator[Performed[Step]]:
        """Perform it; after a crash it begins anew, with nothing left of it but a scratch folder."""
        journal = Journaled(
            store=self.world.store, stream=self.stream, playbook=PLAYBOOK, run=self.run
        )
        steps: Iterator[Performed[Step]] = perform(self._decide, self._act, journal)
        try:
            yield from steps
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _decide(self) -> Step | None:
        return next_step(self._seen)

    def _act(self, step: Step) -> Mapping[str, Any]:
        match step:
            case RestoreScratch():
                return self._restore(step.snapshot)
            case Recompute():
                return self._recompute(step.epoch)
            case NoteProof():
                self.world.store.snapshots.proven(self.stream, step.snapshot, step.seconds)
                self._seen = replace(self._seen, noted=True)
                return {}

    def _restore(self, snapshot: str) -> Mapping[str, Any]:
        vault = self.world.vault(self.stream)
        restored = vault.restore(vault.manifest(snapshot), self._checkpoint, durable=False)
        self._seen = replace(self._seen, restored=True)
        return {"files": restored.files, "bytes": restored.bytes}

    def _recompute(self, epoch: int) -> Mapping[str, Any]:
        declared = self.world.store.streams.get(self.stream)
        entry = self.world.store.ledger.get(self.stream, epoch)
        assert declared is not None, "a stream with snapshots was declared"  # noqa: S101
        assert entry is not None, "the snapshot was chosen so"  # noqa: S101
        stream = StreamDeclaration.model_validate(declared.declaration)
        spec = spec_of(self.world.config, stream, Slot.SECONDARY, self._folder.name, self._folder)
        found = recompute(self.world.config, spec, self._checkpoint, epoch)
        if found.digest != entry.digest:
            raise PermanentError(
                f"going on from {self.snapshot.id}, epoch {epoch} came out as {found.digest} "
                f"({found.rows} rows), but {entry.digest} ({entry.rows} rows) was committed",
                hint="the job is not deterministic, or the application was changed since",
            )
        seconds = SYSTEM_CLOCK.monotonic() - self._began
        self._seen = replace(self._seen, agrees=True, seconds=seconds)
        return {"rows": found.rows, "digest": found.digest}

    @property
    def _folder(self) -> Path:
        return self.world.config.home / "drills" / f"{self.stream}-{self.run}"

    @property
    def _checkpoint(self) -> Path:
        return self._folder / "checkpoint"


def restore_drill(
    world: Project, stream: str, run: str, *, snapshot: str | None = None
) -> Iterator[Performed[Step]]:
    """Prove a snapshot; without an id the newest one after which an epoch was committed."""
    world.config.stream(stream)
    return RestoreDrill(world, stream, run, provable(world, stream, snapshot)).steps()


def restore_drill_plan(world: Project, stream: str, *, snapshot: str | None = None) -> list[Step]:
    """What `restore_drill` would do; refused where it would be."""
    world.config.stream(stream)
    row = provable(world, stream, snapshot)
    return foreseen(Observed(snapshot=row.id, epoch=row.epoch))


def provable(world: Project, stream: str, snapshot: str | None = None) -> SnapshotRow:
    """The snapshot to prove; an error says why there is none."""
    known = [row for row in world.store.snapshots.of(stream) if snapshot in (None, row.id)]
    if not known:
        raise PermanentError(
            f"{stream} has no available snapshot {snapshot or ''}".rstrip(),
            hint=f"`holdfast snapshots list {stream}` shows those it has",
        )
    newest = newest_provable(world, stream, known)
    if newest is None:
        raise PermanentError(
            f"no epoch of {stream} was committed after {snapshot or 'any of its snapshots'}",
            hint="a proof computes the epoch after the snapshot: try again when the stream is further",
        )
    return newest


def newest_provable(
    world: Project, stream: str, known: Sequence[SnapshotRow]
) -> SnapshotRow | None:
    """The first of these after which an epoch was committed, to compare with, from the input there is."""
    last, gaps = world.store.ledger.last(stream), world.store.gaps.of(stream)
    if last is None:
        return None
    before = (row for row in known if row.epoch < last.epoch)
    return next((r for r in before if not any(gap.excuses(r.epoch + 1) for gap in gaps)), None)
