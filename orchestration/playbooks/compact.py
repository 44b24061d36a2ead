"""The compact playbook: merges the old files in the tables of a stream."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from deltalake import DeltaTable

from holdfast.configs.declarations.sinks import DeltaSink
from holdfast.ft_policies.playbooks.compact import (
    MOST_FILES,
    SETTLED_SECONDS,
    CompactFacts,
    CompactStep,
    DeleteMerged,
    EpochFiles,
    MergeFiles,
    TableFacts,
    TableKind,
    WriteCheckpoint,
    find_due,
    next_step,
)
from holdfast.ft_policies.table_epochs import EpochRange
from holdfast.observation.tables import own_tables
from holdfast.orchestration.playbooks.base import StepResult, StreamPlaybook
from holdfast.resources.object_store.resolve import connector
from holdfast.resources.project import Project
from holdfast.streaming.sinks.delta.compaction import TableCompaction
from holdfast.streaming.sinks.delta.files import LiveFile, live_files
from holdfast.streaming.sinks.delta.lineage import epoch_of, merged_epochs


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesMerged(StepResult):
    """How many files became how many, and what is in them."""

    files_before: int
    files: int
    rows: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedDeleted(StepResult):
    """How many files were deleted."""

    files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointWritten(StepResult):
    """How many older checkpoints were deleted."""

    checkpoints_deleted: int


@dataclass(kw_only=True)
class Compact(StreamPlaybook[CompactFacts, CompactStep]):
    """Compact the tables of a stream; the next run continues one that died."""

    name: ClassVar = "compact"

    def observe(self) -> CompactFacts:
        """Read the files of the stream's own tables; none while a restore is about to roll them back."""
        restore = self.project.store.restores.newest(self.stream)
        if restore is not None and not restore.finished:
            return CompactFacts(tables=())
        own = own_tables(self.project, self.stream)
        return CompactFacts(
            tables=tuple(
                self._examine(kind, compaction, table)
                for kind, compaction in self._tables().items()
                if compaction.path in own and (table := compaction.find()) is not None
            )
        )

    def decide(self, facts: CompactFacts) -> CompactStep | None:
        return next_step(facts)

    def act(self, step: CompactStep) -> StepResult:
        compaction = self._tables()[step.table]
        match step:
            case MergeFiles():
                return self._merge(step.table, compaction, EpochRange(step.first, step.last))
            case DeleteMerged():
                return self._delete(compaction)
            case WriteCheckpoint():
                return CheckpointWritten(checkpoints_deleted=compaction.checkpoint())

    def _tables(self) -> dict[TableKind, TableCompaction]:
        return tables_of(self.project, self.stream)

    def _examine(
        self, kind: TableKind, compaction: TableCompaction, table: DeltaTable
    ) -> TableFacts:
        files = live_files(table)
        portions = (
            self._output_portions(files)
            if kind is TableKind.OUTPUT
            else iter([list(_dead_letter_units(files, self._last_settled()))])
        )
        return TableFacts(
            table=kind,
            due=find_due(portions),
            expired=len(compaction.find_expired(table, hours=self._hours_readable())),
            commits=compaction.commits_since_checkpoint(table),
            checkpoints=compaction.count_needless_checkpoints(),
        )

    def _output_portions(self, files: Sequence[LiveFile]) -> Iterator[list[EpochFiles]]:
        """The merged ranges, then portions of the settled epochs after them."""
        merged = sorted(_merged_units(files), key=lambda unit: unit.first)
        yield merged
        fresh = _by_epoch(files)
        begin, settled = (
            merged[-1].last + 1 if merged else min(fresh, default=0),
            self._last_settled(),
        )
        for first in range(begin, settled + 1, MOST_FILES):
            last = min(settled, first + MOST_FILES - 1)
            yield list(self._compared_units(fresh, first, last))

    def _compared_units(
        self, fresh: Mapping[int, "_Files"], first: int, last: int
    ) -> Iterator[EpochFiles]:
        """Epochs that were not merged, each compared with the ledger."""
        entries = {
            row.epoch: row for row in self.project.store.ledger.between(self.stream, first, last)
        }
        floor = self.project.store.retention.floor(self.stream).first_epoch
        for epoch in range(first, last + 1):
            rows, entry = fresh.get(epoch, _NO_FILES), entries.get(epoch)
            yield EpochFiles(
                first=epoch,
                last=epoch,
                files=rows.files,
                size_bytes=rows.size_bytes,
                partitions=rows.partitions,
                fits=epoch < floor if entry is None else entry.rows == rows.rows,
            )

    def _last_settled(self) -> int:
        store = self.project.store
        entry = store.ledger.last_up_to(self.stream, store.now() - SETTLED_SECONDS)
        return -1 if entry is None else entry.epoch

    def _merge(
        self, kind: TableKind, compaction: TableCompaction, epochs: EpochRange
    ) -> FilesMerged:
        store = self.project.store
        is_output = kind is TableKind.OUTPUT  # the ledger does not count dead letters
        rows = store.ledger.between(self.stream, epochs.first, epochs.last) if is_output else []
        entries = {entry.epoch: entry for entry in rows}
        merged = compaction.merge(
            self.stream,
            epochs,
            entries,
            now=store.now(),
            first_kept=store.retention.floor(self.stream).first_epoch,
        )
        return FilesMerged(
            files_before=merged.files_before,
            files=merged.files,
            rows=merged.rows,
            digest=merged.digest,
        )

    def _delete(self, compaction: TableCompaction) -> MergedDeleted:
        table = compaction.find()
        hours = self._hours_readable()
        expired = [] if table is None else compaction.find_expired(table, hours=hours)
        compaction.delete(expired)
        return MergedDeleted(files=len(expired))

    def _hours_readable(self) -> int:
        return math.ceil(self.project.config.deployment.retention.table_versions / 3600)


def compact(project: Project, stream: str, *, run: str = "compact") -> list[str]:
    """Compact the tables of a stream; returns the names of the steps."""
    return [done.name for done in Compact(project, stream, run).steps()]


def tables_of(project: Project, stream: str) -> dict[TableKind, TableCompaction]:
    """The tables that Holdfast writes for a stream."""
    config, declared = project.config, project.config.stream(stream)
    connect = connector(config.deployment.object_store, config.home)
    paths = {
        TableKind.OUTPUT: config.table_path(declared)
        if isinstance(declared.sink, DeltaSink)
        else None,
        TableKind.DEAD_LETTERS: config.dead_letters_path(declared),
    }
    return {
        kind: TableCompaction(path, connect) for kind, path in paths.items() if path is not None
    }


@dataclass(frozen=True, slots=True)
class _Files:
    files: int
    rows: int
    size_bytes: int
    partitions: int


_NO_FILES = _Files(0, 0, 0, 0)


def _by_epoch(files: Sequence[LiveFile]) -> dict[int, _Files]:
    """The files of each epoch that were not merged."""
    by_epoch: dict[int, list[LiveFile]] = defaultdict(list)
    for file in files:
        epoch = epoch_of(file.path)
        if epoch is not None:
            by_epoch[epoch].append(file)
    return {
        epoch: _Files(
            files=len(of),
            rows=sum(file.rows for file in of),
            size_bytes=sum(file.size_bytes for file in of),
            partitions=len({file.partition for file in of}),
        )
        for epoch, of in by_epoch.items()
    }


def _merged_units(files: Sequence[LiveFile]) -> Iterator[EpochFiles]:
    sizes: Counter[EpochRange] = Counter()
    counts: Counter[EpochRange] = Counter()
    for file in files:
        epochs = merged_epochs(file.path)
        if epochs is not None:
            sizes[epochs] += file.size_bytes
            counts[epochs] += 1
    for epochs, size in sizes.items():
        yield EpochFiles(
            first=epochs.first,
            last=epochs.last,
            files=counts[epochs],
            size_bytes=size,
            partitions=counts[epochs],  # a file each
            is_merged=True,
        )


def _dead_letter_units(files: Sequence[LiveFile], settled: int) -> Iterator[EpochFiles]:
    """Most epochs have no dead letters: each file stands for the epochs before it, too."""
    fresh = [
        EpochFiles(first=epoch, last=epoch, files=of_epoch.files, size_bytes=of_epoch.size_bytes)
        for epoch, of_epoch in _by_epoch(files).items()
        if epoch <= settled
    ]
    units = sorted([*_merged_units(files), *fresh], key=lambda unit: unit.last)
    before = -1
    for unit in units:
        first = unit.first if unit.is_merged else before + 1
        yield EpochFiles(
            first=first,
            last=unit.last,
            files=unit.files,
            size_bytes=unit.size_bytes,
            is_merged=unit.is_merged,
        )
        before = unit.last
