"""Tables whose old epochs were merged: the same rows in few files, each epoch once, under a stream that goes on."""

import math
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake.transaction import AddAction, RemoveAction

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.ft_policies.table_epochs import EpochRange
from holdfast.observation.tables import newest_rows, table_epochs
from holdfast.resources.control_store.records import LedgerEntry
from holdfast.resources.control_store.store import ControlStore
from holdfast.streaming.sinks.delta import compaction as module
from holdfast.streaming.sinks.delta.compaction import TableCompaction
from holdfast.streaming.sinks.delta.files import live_files
from holdfast.streaming.sinks.delta.lineage import merged_epochs
from holdfast.streaming.sinks.delta.table import (
    DEAD_LETTERS,
    adopt_window,
    make_dead_letters,
    partition_values,
)
from tests.builders.delta_sinks import NAME, Rows, SinkSetup
from tests.unit.streaming.sinks.delta.test_rollback import a_copy, begin, commit, nowhere, output_of


@pytest.fixture
def project(tmp_path: Path) -> Iterator[SinkSetup]:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as store:
        yield SinkSetup(tmp_path, store)


def compaction_of(project: SinkSetup) -> TableCompaction:
    return TableCompaction(str(project.folder / "table"), nowhere)


def merge(project: SinkSetup, first: int, last: int, *, now: float = 1000.0) -> str:
    entries = {row.epoch: row for row in project.store.ledger.between(NAME, first, last)}
    return compaction_of(project).merge(NAME, EpochRange(first, last), entries, now=now).digest


def table_of(project: SinkSetup) -> DeltaTable:
    return DeltaTable(str(project.folder / "table"))


def ranges(project: SinkSetup) -> list[EpochRange | None]:
    return sorted(file.epochs for file in live_files(table_of(project)) if file.epochs)


def test_merged_epochs_have_the_same_rows_in_one_file(project: SinkSetup) -> None:
    commit(project, *range(8))
    before = project.output()
    digest = merge(project, 0, 5)
    assert project.output() == before
    assert ranges(project) == [EpochRange(0, 5), EpochRange(6, 6)]  # epoch 7 has no rows
    assert digest == f"{0 + 1 + 2 + 4 + 5:016x}"
    epochs = table_epochs(table_of(project), NAME)
    assert epochs.counts == dict.fromkeys((0, 1, 2, 4, 5, 6), 1)


def test_a_range_grows_and_keeps_its_digest(project: SinkSetup) -> None:
    commit(project, *range(8))
    merge(project, 0, 2)
    assert merge(project, 0, 6) == f"{0 + 1 + 2 + 4 + 5 + 6:016x}"
    assert ranges(project) == [EpochRange(0, 6)]


@pytest.mark.parametrize(("first", "last"), [(0, 2), (4, 6)])
def test_a_range_that_another_run_has_merged_with_epochs_beside_it_is_not_merged(
    project: SinkSetup, first: int, last: int
) -> None:
    commit(project, *range(8))
    merge(project, 0, 4)
    with pytest.raises(TransientError, match="another run"):
        merge(project, first, last)
    assert ranges(project) == [EpochRange(0, 4), EpochRange(5, 5), EpochRange(6, 6)]


def test_a_stream_that_was_about_to_commit_goes_on(project: SinkSetup) -> None:
    commit(project, 0, 1, 2, 3)
    sink = project.sink("a")
    sink.prepare(Rows([]).schema)
    staged = sink.stage(Rows([4]), 4, write=True)
    merge(project, 0, 2)
    sink.commit(staged, 4)
    assert project.output() == [0, 1, 2, 4]
    commit(project, 5, replica="b")
    assert project.output() == [0, 1, 2, 4, 5]


def test_a_merge_during_which_the_stream_commits_is_tried_again(
    project: SinkSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(project, 0, 1, 2)
    write, left = module._Commit.write, [4, 5]

    def write_late(*arguments: object) -> None:
        if left:
            commit(project, left.pop(0))
        write(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module._Commit, "write", write_late)
    merge(project, 0, 2)
    assert project.output() == [0, 1, 2, 4, 5]
    assert ranges(project) == [EpochRange(0, 2), EpochRange(4, 4), EpochRange(5, 5)]


def test_a_merge_during_which_the_table_is_rolled_back_changes_nothing(
    project: SinkSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(project, *range(7))
    write = module._Commit.write
    point = begin(project, 2)

    def write_late(*arguments: object) -> None:
        output_of(project).roll_back(point)
        write(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module._Commit, "write", write_late)
    entries: dict[int, LedgerEntry] = {}
    with pytest.raises(TransientError, match="has changed meanwhile"):
        compaction_of(project).merge(NAME, EpochRange(0, 6), entries, now=1.0)
    assert project.output() == [0, 1, 2]
    assert not any(merged_epochs(f"data/{name.name}/") for name in data_folders(project))


def data_folders(project: SinkSetup) -> list[Path]:
    return sorted((project.folder / "table" / "data").iterdir())


def test_a_restore_to_an_epoch_before_a_merge_gives_the_rows_of_then(project: SinkSetup) -> None:
    commit(project, *range(7))
    merge(project, 0, 6)
    output_of(project).roll_back(begin(project, 2))
    assert project.output() == [0, 1, 2]
    commit(project, 4, replica="b", history=1)
    assert project.output() == [0, 1, 2, 104]
    merge(project, 0, 4)
    assert project.output() == [0, 1, 2, 104]


def test_a_restore_needs_neither_the_files_nor_the_log_from_before_a_merge(
    project: SinkSetup,
) -> None:
    commit(project, *range(7))
    merge(project, 0, 6)
    compaction = compaction_of(project)
    expired = compaction.find_expired(table_of(project), hours=1)
    assert len(expired) == 6
    compaction.delete(expired)
    assert compaction.find_expired(table_of(project), hours=1) == []
    assert [folder.name[:25] for folder in data_folders(project)] == ["000000000006-000000000000"]
    assert project.output() == [0, 1, 2, 4, 5, 6]
    forget_log(project)
    output_of(project).roll_back(begin(project, 2))
    assert project.output() == [0, 1, 2]


def forget_log(project: SinkSetup) -> None:
    """Leave a checkpoint and nothing before it."""
    table = table_of(project)
    table.create_checkpoint()
    for old in sorted((project.folder / "table/_delta_log").glob("*.json")):
        if int(old.stem) < table.version():
            old.unlink()


def test_what_a_restore_leaves_of_a_merged_range_is_not_deleted(project: SinkSetup) -> None:
    commit(project, *range(7))
    merge(project, 0, 6)
    output_of(project).roll_back(begin(project, 2))
    compaction = compaction_of(project)
    compaction.delete(compaction.find_expired(table_of(project), hours=1))
    assert project.output() == [0, 1, 2]


def test_rows_that_the_ledger_does_not_have_are_not_merged(project: SinkSetup) -> None:
    commit(project, 0, 1, 2)
    entries = {row.epoch: row for row in project.store.ledger.between(NAME, 0, 2)}
    wrong = LedgerEntry(stream=NAME, epoch=1, replica="a", token=1, rows=2, digest="00")
    with pytest.raises(PermanentError, match="epoch 1 is in it twice, or with other rows"):
        compaction_of(project).merge(NAME, EpochRange(0, 2), {**entries, 1: wrong}, now=1.0)
    assert ranges(project) == [EpochRange(epoch, epoch) for epoch in range(3)]


def test_a_file_that_is_not_written_right_is_not_committed(
    project: SinkSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(project, 0, 1, 2)
    write = pq.ParquetWriter.write_table

    def damage(self: pq.ParquetWriter, table: pa.Table, **options: int) -> None:
        write(self, pa.table({"n": [0, 1, 7]}), **options)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", damage)
    with pytest.raises(PermanentError, match="does not have the rows"):
        merge(project, 0, 2)
    assert project.output() == [0, 1, 2]
    assert len(data_folders(project)) == 3


def test_the_newest_rows_are_still_read_first(project: SinkSetup) -> None:
    commit(project, *range(7))
    merge(project, 0, 4)
    newest = newest_rows(table_of(project), at_least=2)
    assert sorted(newest.frame["n"]) == [5, 6]


def test_partitions_with_any_values_and_rows_with_nan_stay_what_they_are(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    schema = pa.schema([("x", pa.float64()), ("k", pa.string())])
    for epoch in range(3):
        rows = {"x": [math.nan, float(epoch), None], "k": ["a b/%", "é", None]}
        write_deltalake(path, pa.table(rows, schema=schema), mode="append", partition_by=["k"])
    table = DeltaTable(path)
    # as the sink names them
    before = table.to_pandas().sort_values(["x", "k"], ignore_index=True)
    moved = _moved_into_epochs(table, tmp_path / "table")
    TableCompaction(path, nowhere).merge(NAME, EpochRange(0, 2), {}, now=1.0)
    after = DeltaTable(path).to_pandas().sort_values(["x", "k"], ignore_index=True)
    assert after[["x", "k"]].equals(before[["x", "k"]])
    assert (moved, len(live_files(DeltaTable(path)))) == (9, 3)
    a_copy(tmp_path / "table", tmp_path / "trial", "w").copy([])
    copied = DeltaTable(str(tmp_path / "trial")).to_pandas()
    assert copied.sort_values(["x", "k"], ignore_index=True)[["x", "k"]].equals(after[["x", "k"]])


def _moved_into_epochs(table: DeltaTable, root: Path) -> int:
    """Make the files those of epochs 0 to 2: as the sink would have written them."""
    actions: list[AddAction | RemoveAction] = []
    by_partition: dict[str, int] = {}
    for file in sorted(live_files(table), key=lambda file: file.path):
        partition = file.path.rsplit("/", 1)[0]
        epoch = by_partition.get(partition, 0)
        by_partition[partition] = epoch + 1
        new = f"data/{epoch:012d}-r-0000000{epoch}/{partition}/part-0.parquet"
        (root / new).parent.mkdir(parents=True)
        (root / file.path).rename(root / new)
        values = partition_values(new)
        actions.append(
            AddAction(
                path=new,
                size=file.size_bytes,
                partition_values=values,
                modification_time=0,
                data_change=True,
                stats=f'{{"numRecords": {file.rows}}}',
            )
        )
        actions.append(
            RemoveAction(
                path=file.path,
                data_change=True,
                deletion_timestamp=0,
                size=file.size_bytes,
                partition_values=values,
            )
        )
    table.create_write_transaction(actions, "append", table.schema(), partition_by=["k"])
    return len(actions) // 2


def test_old_checkpoints_are_thinned_out_and_older_versions_can_be_read(
    project: SinkSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHECKPOINT_SPACING", 4)
    compaction = compaction_of(project)
    for epoch in range(10):
        commit(project, epoch)
        compaction.checkpoint()
    log = project.folder / "table" / "_delta_log"
    kept = sorted(int(path.name[:20]) for path in log.glob("*.checkpoint.parquet"))
    assert kept == [1, 5, 7, 8]
    assert compaction.commits_since_checkpoint(table_of(project)) == 0
    assert compaction.log_bytes() > 0
    second = DeltaTable(str(project.folder / "table"), version=2).to_pandas()
    assert sorted(second["n"]) == [0, 1]


def a_table_of_epochs(path: str, *epochs: pa.Table) -> None:
    """A table with a file an epoch, as the sink would have written them."""
    for epoch, rows in enumerate(epochs):
        write_deltalake(path, rows, mode="append", schema_mode="merge")
        table, path_in_table = DeltaTable(path), f"data/{epoch:012d}-r-00000000/part-0.parquet"
        written = next(file for file in live_files(table) if file.epochs is None)
        (Path(path) / path_in_table).parent.mkdir(parents=True)
        (Path(path) / written.path).rename(Path(path) / path_in_table)
        added = AddAction(
            path=path_in_table,
            size=written.size_bytes,
            partition_values={},
            modification_time=0,
            data_change=True,
            stats=f'{{"numRecords": {written.rows}}}',
        )
        removed = RemoveAction(
            path=written.path,
            data_change=True,
            deletion_timestamp=0,
            size=written.size_bytes,
            partition_values={},
        )
        table.create_write_transaction([added, removed], "append", table.schema())


def rows_of(path: str) -> list[dict[str, object]]:
    rows = pa.table(DeltaTable(path).to_pyarrow_table()).to_pylist()
    return sorted(rows, key=lambda row: int(row["n"]))


def test_a_column_that_was_added_in_the_middle_of_a_range_keeps_its_values(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    late = pa.table({"n": [2, 3], "x": ["b", None], "of": [{"a": 1}, {"a": None}]})
    a_table_of_epochs(path, pa.table({"n": [1]}), late, pa.table({"n": [4], "x": ["c"]}))
    before = rows_of(path)
    TableCompaction(path, nowhere).merge(NAME, EpochRange(0, 2), {}, now=1.0)
    assert [file.epochs for file in live_files(DeltaTable(path))] == [EpochRange(0, 2)]
    assert rows_of(path) == before
    assert [row["x"] for row in before] == [None, "b", None, "c"]


def test_a_file_whose_column_has_another_type_is_merged_only_if_each_value_stays(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "table")
    a_table_of_epochs(
        path, *(pa.table({"n": [1], "x": pa.array([0.5], pa.float32())}) for _ in "ab")
    )
    written = tmp_path / "table" / live_files(DeltaTable(path))[0].path
    pq.write_table(pa.table({"n": [1], "x": [0.25]}), written)
    TableCompaction(path, nowhere).merge(NAME, EpochRange(0, 1), {}, now=1.0)
    (merged,) = live_files(DeltaTable(path))
    assert sorted(row["x"] for row in rows_of(path)) == [0.25, 0.5]
    pq.write_table(pa.table({"n": [1, 2], "x": [0.5, 0.1]}), tmp_path / "table" / merged.path)
    with pytest.raises(PermanentError, match="does not have the rows"):
        TableCompaction(path, nowhere).merge(NAME, EpochRange(0, 1), {}, now=1.0)
    pq.write_table(pa.table({"n": [1, 2], "y": [0, 0]}), tmp_path / "table" / merged.path)
    with pytest.raises(PermanentError, match="the table has no column y"):
        TableCompaction(path, nowhere).merge(NAME, EpochRange(0, 1), {}, now=1.0)


WINDOW = {
    "delta.logRetentionDuration": "interval 60 seconds",
    "delta.deletedFileRetentionDuration": "interval 7260 seconds",
}


def test_a_table_of_an_older_version_adopts_the_window(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    a_table_of_epochs(path, pa.table({"n": [1]}))
    assert adopt_window(DeltaTable(path), 60.0)
    assert DeltaTable(path).metadata().configuration == WINDOW


def test_dead_letters_that_a_restore_has_made_adopt_the_window(tmp_path: Path) -> None:
    table = make_dead_letters(str(tmp_path), nowhere)
    write_deltalake(table, DEAD_LETTERS.empty_table(), mode="append")
    assert adopt_window(table, 60.0)
    configuration = DeltaTable(str(tmp_path)).metadata().configuration
    assert {name: configuration.get(name) for name in WINDOW} == WINDOW


@pytest.mark.parametrize(
    "chosen",
    [{"delta.checkpointInterval": "10"}, {"delta.logRetentionDuration": "interval 9 days"}],
)
def test_a_table_of_another_program_keeps_its_window(
    tmp_path: Path, chosen: dict[str, str | None]
) -> None:
    schema = pa.schema([("n", pa.int64())])
    table = DeltaTable.create(str(tmp_path), schema=Schema.from_arrow(schema), configuration=chosen)
    assert adopt_window(table, 60.0)
    assert DeltaTable(str(tmp_path)).metadata().configuration == chosen


def test_a_table_with_files_of_another_program_keeps_its_window(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), pa.table({"n": [1]}))
    assert adopt_window(DeltaTable(str(tmp_path)), 60.0)
    assert DeltaTable(str(tmp_path)).metadata().configuration == {}


def test_a_stream_that_was_about_to_commit_adopts_a_changed_window(project: SinkSetup) -> None:
    commit(project, 0, 1)
    earlier = {"delta.logRetentionDuration": "interval 5 seconds"}
    table_of(project).alter.set_table_properties(earlier)
    sink = project.sink("a")
    sink.prepare(Rows([]).schema)
    staged = sink.stage(Rows([2]), 2, write=True)
    table, late = table_of(project), table_of(project)
    assert adopt_window(table, 60.0)
    assert not adopt_window(late, 90.0)  # another commit was faster: the next run tries again
    sink.commit(staged, 2)
    assert project.output() == [0, 1, 2]
    properties = table_of(project).metadata().configuration
    assert properties["delta.logRetentionDuration"] == "interval 60 seconds"
