"""Tables that go back to an epoch whatever was merged before: their rows, against an oracle that filters by epoch."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction
from hypothesis import given, settings, strategies as st

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.ft_policies.table_epochs import EpochIndex, EpochRange, sum_digests
from holdfast.resources.control_store.records import LedgerEntry
from holdfast.resources.object_store.connection import S3Connection
from holdfast.streaming.sinks.delta import rollback as rollback_module
from holdfast.streaming.sinks.delta.compaction import TableCompaction
from holdfast.streaming.sinks.delta.copy import TableCopy
from holdfast.streaming.sinks.delta.files import (
    LiveFile,
    TableFolder,
    epochs_twice,
    live_files,
    read_footer,
)
from holdfast.streaming.sinks.delta.lineage import merged_epochs, writer
from holdfast.streaming.sinks.delta.rollback import RollbackPoint, TableRollback
from holdfast.streaming.sinks.delta.table import partition_values

NAME = "words"
SCHEMA = pa.schema([("n", pa.int64()), ("k", pa.string())])
KEYS = ("a", "b")


def nowhere() -> S3Connection:
    raise AssertionError("the tables are on a disk")


@dataclass
class EpochTable:
    """A partitioned table, and the rows of each epoch that it should have."""

    root: Path
    rows: dict[int, dict[str, list[int]]] = field(default_factory=dict)
    history: int = 0
    first_kept: int = 0
    _numbers: Iterator[int] = field(default_factory=lambda: iter(range(10**9)))

    def __post_init__(self) -> None:
        schema = Schema.from_arrow(SCHEMA)
        DeltaTable.create(self.path, schema=schema, partition_by=["k"])

    @property
    def path(self) -> str:
        return str(self.root / "table")

    @property
    def last(self) -> int:
        return max(self.rows, default=-1)

    def write_epoch(self, counts: tuple[int, ...], *, history: int | None = None) -> None:
        """Commit the next epoch, with so many rows in each partition; none if there are no rows."""
        epoch = self.last + 1
        rows = {
            key: [next(self._numbers) for _ in range(count)]
            for key, count in zip(KEYS, counts, strict=True)
            if count
        }
        self.commit(epoch, rows, history=self.history if history is None else history)
        self.rows[epoch] = rows

    def commit(
        self,
        epoch: int,
        rows: dict[str, list[int]],
        *,
        history: int,
        to: DeltaTable | None = None,
    ) -> None:
        unique = next(self._numbers)
        actions = [self.stage(epoch, unique, key, numbers) for key, numbers in rows.items()]
        if actions:
            table = to or DeltaTable(self.path)
            written = [Transaction(writer(NAME, history), epoch)]
            table.create_write_transaction(
                actions, "append", table.schema(), partition_by=["k"],
                commit_properties=CommitProperties(app_transactions=written),
            )  # fmt: skip

    def stage(self, epoch: int, unique: int, key: str, numbers: list[int]) -> AddAction:
        name = f"data/{epoch:012d}-r-{unique:08x}/k={key}/part-0.parquet"
        (self.root / "table" / name).parent.mkdir(parents=True)
        pq.write_table(pa.table({"n": numbers}), self.root / "table" / name)
        return AddAction(
            path=name,
            size=(self.root / "table" / name).stat().st_size,
            partition_values=partition_values(name),
            modification_time=0,
            data_change=True,
            stats=json.dumps({"numRecords": len(numbers)}),
        )

    def entries(self) -> dict[int, LedgerEntry]:
        return {
            epoch: LedgerEntry(
                stream=NAME, epoch=epoch, replica="r", token=1,
                rows=sum(map(len, rows.values())), digest=digest_of(rows),
            )
            for epoch, rows in self.rows.items()
        }  # fmt: skip

    def later(self, epoch: int) -> list[LedgerEntry]:
        return [entry for number, entry in self.entries().items() if number > epoch]

    def merge(self, first: int, last: int) -> None:
        """Merge a range, and those that it overlaps with."""
        for file in live_files(DeltaTable(self.path)):
            epochs = file.epochs
            if epochs is not None and epochs.overlaps(EpochRange(first, last)):
                first, last = min(first, epochs.first), max(last, epochs.last)
        if 0 <= first <= last <= self.last:
            TableCompaction(self.path, nowhere).merge(
                NAME, EpochRange(first, last), self.entries(), now=1.0, first_kept=self.first_kept
            )

    def forget(self) -> None:
        """Delete the log before a checkpoint, and the files that no later version has."""
        table = DeltaTable(self.path)
        table.vacuum(0, dry_run=False, enforce_retention_duration=False)
        table.create_checkpoint()
        for old in (self.root / "table/_delta_log").glob("*.json"):
            if int(old.stem) < table.version():
                old.unlink()

    def point(self, epoch: int) -> RollbackPoint:
        return RollbackPoint(
            stream=NAME, history=self.history + 1, epoch=epoch, undone=self.later(epoch)
        )

    def roll_back(self, epoch: int) -> None:
        rollback, later = TableRollback(self.path, nowhere), self.later(epoch)
        rollback.require_possible(epoch, later)
        rollback.roll_back(self.point(epoch))
        self.undo(epoch)

    def undo(self, epoch: int) -> None:
        """Take back what the table should have."""
        self.history += 1
        self.rows = {number: rows for number, rows in self.rows.items() if number <= epoch}

    def expected(self, through: int | None = None) -> list[tuple[int, str]]:
        return sorted(
            (number, key)
            for epoch, rows in self.rows.items()
            if through is None or epoch <= through
            for key, numbers in rows.items()
            for number in numbers
        )

    def require_right(self) -> None:
        assert rows_of(self.path) == self.expected()
        files = live_files(DeltaTable(self.path))
        assert epochs_twice(files) == []
        for file in files:
            epochs = merged_epochs(file.path)
            if epochs is not None:
                self._require_footer(file, epochs)

    def _require_footer(self, file: LiveFile, epochs: EpochRange) -> None:
        """The footer of a merged file counts its rows by epoch, and has the digest of its range."""
        footer = read_footer(TableFolder.open(self.path, nowhere), file.path)
        assert footer.index is not None
        assert footer.index.rows == file.rows
        key = file.partition.removeprefix("k=")
        for epoch, count in footer.index.counts:
            assert count == len(self.rows[epoch].get(key, ()))
        within = [digest_of(rows) for epoch, rows in self.rows.items() if epoch in epochs]
        assert footer.digest == sum_digests(within)
        table = pq.read_table(f"{self.path}/{file.path}", partitioning=None)
        assert table["n"].to_pylist() == sorted(table["n"].to_pylist())  # the order of epochs


def digest_of(rows: dict[str, list[int]]) -> str:
    return f"{sum(7919 * number + 1 for numbers in rows.values() for number in numbers):016x}"


def rows_of(path: str) -> list[tuple[int, str]]:
    rows = pa.table(DeltaTable(path).to_pyarrow_table()).to_pylist()
    return sorted((row["n"], row["k"]) for row in rows)


EPOCH = st.tuples(st.just("epoch"), st.tuples(*(st.integers(0, 3) for _ in KEYS)))
SHARE = st.floats(0, 1)
MERGE = st.tuples(st.just("merge"), st.tuples(SHARE, SHARE))
RESTORE = st.tuples(st.just("restore"), SHARE)
OTHER = st.sampled_from([("forget", None), ("prune", None)])
LIFE = st.lists(st.one_of(EPOCH, EPOCH, EPOCH, MERGE, RESTORE, OTHER), min_size=4, max_size=24)


def live(table: EpochTable, life: list[tuple[str, Any]]) -> Iterator[None]:
    """Let a table live, with a pause after each thing that happens."""
    for what, how in life:
        if what == "epoch":
            table.write_epoch(how)
        elif what == "merge":
            first, last = sorted(round(share * table.last) for share in how)
            table.merge(first, last)
        elif what == "restore" and table.last >= 0:
            table.roll_back(table.first_kept + round(how * (table.last - table.first_kept)))
        elif what == "forget":
            table.forget()
        elif what == "prune":
            table.first_kept = max(table.first_kept, table.last // 2)
        yield


@settings(max_examples=60, deadline=None)
@given(LIFE)
def test_a_table_has_the_rows_up_to_the_epoch_whatever_was_merged_pruned_and_restored_before(
    life: list[tuple[str, Any]],
) -> None:
    with TemporaryDirectory() as folder:
        table = EpochTable(Path(folder))
        for _ in live(table, life):
            table.require_right()


@settings(max_examples=30, deadline=None)
@given(LIFE, SHARE)
def test_a_fork_has_the_rows_up_to_the_epoch_and_the_original_keeps_its_own(
    life: list[tuple[str, Any]], share: float
) -> None:
    with TemporaryDirectory() as folder:
        table = EpochTable(Path(folder))
        for _ in live(table, life):
            pass
        epoch = table.first_kept + round(share * (table.last - table.first_kept))
        before = DeltaTable(table.path).version()
        copied = [a_copy(table, epoch, f"trial{attempt}") for attempt in range(2)]
        copied[0].copy(table.later(epoch))
        shutil.copytree(f"{copied[0].target}/data", f"{copied[1].target}/data", dirs_exist_ok=True)
        copied[1].copy(table.later(epoch))  # an attempt before has left its files
        for copy in copied:
            assert copy.is_done()
            assert rows_of(copy.target) == table.expected(through=epoch)
            paths = {file.path for file in live_files(DeltaTable(copy.target))}
            assert {str(path) for path in parquet_below(copy.target)} == paths
        assert DeltaTable(table.path).version() == before
        table.require_right()


def a_copy(table: EpochTable, epoch: int, name: str) -> TableCopy:
    Path(table.root / name / "data").mkdir(parents=True)
    return TableCopy(
        source=table.path,
        target=str(table.root / name),
        stream=name,
        writer=writer(name, 0),
        epoch=epoch,
        connect=nowhere,
        keep_seconds=60.0,
    )


def parquet_below(path: str) -> list[Path]:
    return [file.relative_to(path) for file in Path(path, "data").rglob("*.parquet")]


@pytest.fixture
def table(tmp_path: Path) -> EpochTable:
    return ten_epochs(tmp_path)


def ten_epochs(folder: Path) -> EpochTable:
    """Epochs 0 to 9, of which 0 to 6 are merged."""
    table = EpochTable(folder)
    for epoch in range(10):
        table.write_epoch((1, epoch % 3))
    table.merge(0, 6)
    return table


class DeadRunError(Exception):
    """The process of a run was killed."""


@pytest.mark.parametrize("place", ["before", "after"])
def test_a_rollback_that_dies_before_or_after_its_commit_is_finished_by_the_next(
    table: EpochTable, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def die(act: Callable[..., None]) -> Callable[..., None]:
        def acts(*arguments: Any, **options: Any) -> None:
            if place == "after":
                act(*arguments, **options)
            raise DeadRunError

        return acts

    replace = rollback_module.replace_files
    monkeypatch.setattr(rollback_module, "replace_files", die(replace))
    rollback = TableRollback(table.path, nowhere)
    with pytest.raises(DeadRunError):
        rollback.roll_back(table.point(3))
    monkeypatch.setattr(rollback_module, "replace_files", replace)
    assert rollback.is_rolled_back(writer(NAME, 1)) is (place == "after")
    assert rollback.roll_back(table.point(3)) == DeltaTable(table.path).version()
    table.undo(3)
    table.require_right()


def test_a_commit_whose_answer_is_lost_counts_once(
    table: EpochTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = rollback_module.replace_files

    def lose(*arguments: Any, **options: Any) -> None:
        replace(*arguments, **options)
        raise CommitFailedError("the store has it, and says that there was one before")

    monkeypatch.setattr(rollback_module, "replace_files", lose)
    TableRollback(table.path, nowhere).roll_back(table.point(3))
    table.undo(3)
    table.require_right()


def test_what_a_replica_of_the_old_history_commits_meanwhile_is_taken_out_as_well(
    table: EpochTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace, left, cuts = rollback_module.replace_files, [1, 1, 1], []

    def commit_first(*arguments: Any, **options: Any) -> None:
        cuts.append([file.path for file in options["added"]])
        if left:
            table.write_epoch((left.pop(), 0), history=0)
        replace(*arguments, **options)

    monkeypatch.setattr(rollback_module, "replace_files", commit_first)
    TableRollback(table.path, nowhere).roll_back(table.point(3))
    table.undo(3)
    table.require_right()
    assert len(cuts) == 4
    assert cuts[0] == cuts[3]  # what is cut is written once
    before = DeltaTable(table.path, version=DeltaTable(table.path).version() - 1)
    with pytest.raises(CommitFailedError):
        table.commit(99, {"a": [1]}, history=0, to=before)


def test_a_range_that_is_merged_meanwhile_is_cut_as_merged(
    table: EpochTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace, merges = rollback_module.replace_files, [(0, 8)]

    def merge_first(*arguments: Any, **options: Any) -> None:
        if merges:
            table.merge(*merges.pop())
        replace(*arguments, **options)

    monkeypatch.setattr(rollback_module, "replace_files", merge_first)
    TableRollback(table.path, nowhere).roll_back(table.point(3))
    table.undo(3)
    table.require_right()


def test_a_cut_that_is_not_written_right_changes_nothing(
    table: EpochTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = pq.ParquetWriter.write_table

    def damage(self: pq.ParquetWriter, rows: pa.Table, **options: int) -> None:
        write(self, pa.table({"n": [-1] * rows.num_rows}), **options)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", damage)
    before = sorted(parquet_below(table.path))
    with pytest.raises(PermanentError, match="does not have the rows of the files before"):
        TableRollback(table.path, nowhere).roll_back(table.point(3))
    assert sorted(parquet_below(table.path)) == before
    table.require_right()


@pytest.fixture
def old_table(tmp_path: Path) -> EpochTable:
    """Epochs 0 to 9, of which an older version of Holdfast has merged 0 to 6."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EpochIndex, "to_text", lambda _: "")
        return ten_epochs(tmp_path)


def test_a_merged_file_that_does_not_count_its_epochs_is_not_cut_and_the_nearest_points_are_named(
    old_table: EpochTable,
) -> None:
    rollback = TableRollback(old_table.path, nowhere)
    with pytest.raises(PermanentError, match="cannot be taken back to epoch 3") as refused:
        rollback.require_possible(3, old_table.later(3))
    assert "choose epoch 6" in refused.value.hint
    old_table.roll_back(6)
    assert rows_of(old_table.path) == old_table.expected()


def test_a_range_with_files_that_do_not_count_their_epochs_can_be_cut_after_those(
    old_table: EpochTable,
) -> None:
    old_table.merge(0, 9)
    with pytest.raises(PermanentError) as refused:
        TableRollback(old_table.path, nowhere).require_possible(5, old_table.later(5))
    assert "choose epoch 6" in refused.value.hint
    old_table.roll_back(7)
    assert rows_of(old_table.path) == old_table.expected()


def test_rows_of_later_epochs_that_another_program_has_written_again_refuse_the_rollback(
    table: EpochTable,
) -> None:
    DeltaTable(table.path).optimize.compact()
    for act in (
        lambda: TableRollback(table.path, nowhere).require_possible(3, table.later(3)),
        lambda: TableRollback(table.path, nowhere).roll_back(table.point(3)),
        lambda: a_copy(table, 3, "trial").require_copyable(table.later(3)),
    ):
        before = DeltaTable(table.path).version()
        with pytest.raises(
            PermanentError, match="another program has written them again"
        ) as refused:
            act()
        assert "choose epoch 9 or a later one" in refused.value.hint
        assert DeltaTable(table.path).version() == before
    table.roll_back(9)
    table.write_epoch((2, 2))
    table.roll_back(9)  # what came after is in files of its own
    assert rows_of(table.path) == table.expected()


def test_files_of_other_programs_stay(table: EpochTable) -> None:
    added = pa.table({"n": [-1], "k": ["a"]}, schema=SCHEMA)
    write_deltalake(table.path, added, mode="append")
    table.roll_back(3)
    assert rows_of(table.path) == [(-1, "a"), *table.expected()]


@pytest.mark.parametrize("feature", ["deletionVectors", "columnMapping"])
def test_a_table_whose_files_are_not_its_rows_is_refused(table: EpochTable, feature: str) -> None:
    log = Path(table.path) / "_delta_log" / f"{0:020d}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "protocol" in line:
            line["protocol"] = {
                "minReaderVersion": 3, "minWriterVersion": 7,
                "readerFeatures": [feature], "writerFeatures": [feature],
            }  # fmt: skip
    log.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises((PermanentError, TransientError)):
        TableRollback(table.path, nowhere).require_possible(3, table.later(3))
