"""The compact playbook: merges the old files, so that a table does not grow slower with each epoch.

Each epoch of a stream is a commit with files of its own. The cost of a commit, the memory of a replica and the size of
the table's log depend on the number of files. The rows of a merged range of epochs are in one file a partition, and
the name of its folder says which epochs they are: each of them is in the table exactly once. The file itself says how
many rows each epoch has, so that a restore can cut it. The single files stay as long as older versions of the table can
be read (`retention.table_versions`); no restore needs them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import ClassVar, TypeAlias

SETTLED_SECONDS = 600.0
"""Epochs that were committed more recently than that are not merged yet."""
FEWEST_FILES = 100
"""Fewer new files than that are not worth a commit."""
MOST_FILES = 20_000
"""More files than that are merged in several commits."""
CHECKPOINT_COMMITS = 200
"""After that many commits the log gets a checkpoint: each commit reads all later ones."""
MOST_CHECKPOINTS = 3
"""More needless checkpoints than that are deleted."""
SMALL_BYTES = 4 * 1024**2
LARGE_BYTES = 512 * 1024**2
"""More bytes than that are merged in several commits, unless they are in many partitions."""
LARGE_FILE_BYTES = LARGE_BYTES // 8
"""Files of that size are not worth merging."""


def most_bytes(partitions: int) -> int:
    """How many bytes are merged in one commit: enough for a large file in each partition, so that the files stay few."""
    return max(LARGE_BYTES, LARGE_FILE_BYTES * partitions)


class TableKind(StrEnum):
    """Which table of a stream."""

    OUTPUT = "output"
    DEAD_LETTERS = "dead_letters"


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochFiles:
    """The files of adjacent epochs: of one epoch, or of a range that was merged before.

    What does not fit (the table has other rows than the ledger) stays as it is. Of several together, `partitions` is
    that of the one with the most.
    """

    first: int
    last: int
    files: int
    size_bytes: int
    partitions: int = 1
    is_merged: bool = False
    fits: bool = True

    @property
    def is_large(self) -> bool:
        """Whether merging would cost much and change little."""
        is_whole = self.size_bytes >= LARGE_FILE_BYTES * self.files > 0
        return is_whole or self.size_bytes > most_bytes(self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """The files of a table: those to merge next, those that no readable version has, and the checkpoints of its log."""

    table: TableKind
    due: EpochFiles | None
    expired: int
    commits: int
    """Commits since the last checkpoint."""
    checkpoints: int
    """Older checkpoints that are not needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactFacts:
    """The tables of a stream; none while a restore is unfinished."""

    tables: tuple[TableFacts, ...]

    def with_table(self, changed: TableFacts) -> "CompactFacts":
        tables = (changed if table.table is changed.table else table for table in self.tables)
        return replace(self, tables=tuple(tables))

    def of(self, kind: TableKind) -> TableFacts:
        return next(table for table in self.tables if table.table is kind)


@dataclass(frozen=True, slots=True)
class MergeFiles:
    """Write the rows of these epochs into new files, compare them, and replace the files in one commit."""

    name: ClassVar = "MergeFiles"
    table: TableKind
    first: int
    last: int
    files: int
    size_bytes: int

    def describe(self) -> str:
        return (
            f"merges {self.files} files of epochs {self.first} to {self.last} of the table {self.table}, "
            "after a comparison of all rows"
        )

    def after(self, facts: CompactFacts) -> CompactFacts:
        return facts.with_table(replace(facts.of(self.table), due=None))


@dataclass(frozen=True, slots=True)
class DeleteMerged:
    """Delete the files that were removed from the table before its older versions that can be read."""

    name: ClassVar = "DeleteMerged"
    table: TableKind
    files: int

    def describe(self) -> str:
        return (
            f"deletes {self.files} files of the table {self.table} that were merged or rolled back longer ago than "
            "retention.table_versions: no version that can be read has them"
        )

    def after(self, facts: CompactFacts) -> CompactFacts:
        return facts.with_table(replace(facts.of(self.table), expired=0))


@dataclass(frozen=True, slots=True)
class WriteCheckpoint:
    """Sum up the table's log, so that it opens fast, and delete the sums before that are not needed."""

    name: ClassVar = "WriteCheckpoint"
    table: TableKind
    commits: int
    checkpoints: int

    def describe(self) -> str:
        return (
            f"sums up {self.commits} commits of the table {self.table} in a checkpoint of its log, "
            "and deletes older checkpoints that are not needed"
        )

    def after(self, facts: CompactFacts) -> CompactFacts:
        return facts.with_table(replace(facts.of(self.table), commits=0, checkpoints=0))


CompactStep: TypeAlias = MergeFiles | DeleteMerged | WriteCheckpoint


def next_step(facts: CompactFacts) -> CompactStep | None:
    """The next step; `None` when all tables are compact.

    The checkpoint is last: it forgets the files that were deleted.
    """
    for table in facts.tables:
        due = table.due
        if due is not None:
            return MergeFiles(table.table, due.first, due.last, due.files, due.size_bytes)
        if table.expired:
            return DeleteMerged(table.table, table.expired)
        if table.commits >= CHECKPOINT_COMMITS or table.checkpoints > MOST_CHECKPOINTS:
            return WriteCheckpoint(table.table, table.commits, table.checkpoints)
    return None


def find_due(portions: Iterable[Sequence[EpochFiles]]) -> EpochFiles | None:
    """The first range that is worth merging in portions of units; later portions are read only if needed."""
    carried: Sequence[EpochFiles] = ()
    for portion in portions:
        units = [*carried, *portion]
        due = files_to_merge(units)
        if due is not None:
            return due
        carried = _still_open(units)
    return None


def _still_open(units: Sequence[EpochFiles]) -> Sequence[EpochFiles]:
    """What the next portion may continue: merged ranges, and the stretch after them in one."""
    run = list(_runs(units))[-1]
    ends = [place for place, unit in enumerate(run, 1) if unit.is_merged or unit.is_large]
    begin = ends[-1] if ends else 0
    merged = [unit for unit in run[:begin] if unit.is_merged]
    return [*merged, *([_sum(run[begin:])] if run[begin:] else [])]


def files_to_merge(units: Sequence[EpochFiles]) -> EpochFiles | None:
    """The first range that is worth merging; `units` are in the order of epochs."""
    for run in _runs(units):
        fresh = next(_fresh(run), None)
        if fresh is not None:
            first, last = fresh
            return _sum(run[_reach_back(run, first, last) : last])
    return None


def _runs(units: Sequence[EpochFiles]) -> Iterator[Sequence[EpochFiles]]:
    """The longest sequences of adjacent epochs that fit."""
    fitting = [unit for unit in units if unit.fits]
    cuts = [
        place
        for place, (before, after) in enumerate(pairwise(fitting), 1)
        if before.last + 1 != after.first
    ]
    for begin, end in pairwise([0, *cuts, len(fitting)]):
        yield fitting[begin:end]


def _fresh(run: Sequence[EpochFiles]) -> Iterator[tuple[int, int]]:
    """The stretches of files that were not merged yet and that are worth it, as places in the run."""
    begin, files, size, partitions = 0, 0, 0, 1
    for place, unit in enumerate(run):
        is_apart = unit.is_merged or unit.is_large
        most = most_bytes(max(partitions, unit.partitions))
        is_full = not is_apart and size + unit.size_bytes > most
        if is_apart or is_full or files + unit.files > MOST_FILES:
            if files >= FEWEST_FILES or (is_full and size >= most // 2):
                yield begin, place
            begin, files, size, partitions = place + is_apart, 0, 0, 1
        if not is_apart:
            files, size = files + unit.files, size + unit.size_bytes
            partitions = max(partitions, unit.partitions)
    if files >= FEWEST_FILES:
        yield begin, len(run)


def _reach_back(run: Sequence[EpochFiles], first: int, last: int) -> int:
    """Where to begin, so that ranges that were merged before grow without being written too often."""
    grown = _sum(run[first:last])
    while first > 0 and run[first - 1].is_merged:
        before = run[first - 1]
        if before.size_bytes > max(SMALL_BYTES, 2 * grown.size_bytes):
            break
        grown = _sum([before, grown])
        if grown.size_bytes > most_bytes(grown.partitions):
            break
        first -= 1
    return first


def _sum(units: Sequence[EpochFiles]) -> EpochFiles:
    return EpochFiles(
        first=units[0].first,
        last=units[-1].last,
        files=sum(unit.files for unit in units),
        size_bytes=sum(unit.size_bytes for unit in units),
        partitions=max(unit.partitions for unit in units),
    )
