"""Tables that are rolled back to an earlier epoch: their content then, and which replicas may still write."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from holdfast.ft_policies.errors import PermanentError
from holdfast.observation.tables import table_epochs
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.object_store.connection import S3Connection
from holdfast.streaming.sinks.delta.copy import TableCopy
from holdfast.streaming.sinks.delta.lineage import dead_letter_writer, writer
from holdfast.streaming.sinks.delta.rollback import RollbackPoint, TableRollback
from holdfast.streaming.sinks.delta.table import DEAD_LETTERS
from tests.builders.delta_sinks import NAME, SCHEMA, Rows, SinkSetup


@pytest.fixture
def project(tmp_path: Path) -> Iterator[SinkSetup]:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as store:
        yield SinkSetup(tmp_path, store)


def nowhere() -> S3Connection:
    raise AssertionError("the tables are on a disk")


def output_of(project: SinkSetup) -> TableRollback:
    return TableRollback(str(project.folder / "table"), nowhere)


def commit(project: SinkSetup, *epochs: int, replica: str = "a", history: int = 0) -> None:
    """Commit epochs; every fourth has no rows, and need not be named."""
    sender = project.sender(replica, history=history)
    for epoch in epochs:
        if epoch and epoch % 4 == 0:
            sender(Rows([]), epoch - 1)
        sender(Rows([] if epoch % 4 == 3 else [100 * history + epoch]), epoch)


def begin(project: SinkSetup, epoch: int) -> RollbackPoint:
    """Begin another history in the control store."""
    store = project.store
    request = store.restores.request(NAME, epoch=epoch, snapshot=None, why="", run="")
    assert store.restores.begin(request) is not None
    store.restores.finish(request)
    return RollbackPoint(stream=NAME, history=request.history, epoch=epoch)


def restored(project: SinkSetup, epoch: int) -> None:
    output_of(project).roll_back(begin(project, epoch))


def test_a_rolled_table_is_what_it_was_after_the_epoch(project: SinkSetup) -> None:
    commit(project, 0, 1, 2)
    then = project.output()
    commit(project, 3, 4, 5, replica="b")
    restored(project, 2)
    assert project.output() == then == [0, 1, 2]


def test_an_epoch_without_rows_is_a_point_like_any_other(project: SinkSetup) -> None:
    commit(project, 0, 1, 2, 3, 4, 5)
    restored(project, 3)
    assert project.output() == [0, 1, 2]
    commit(project, 4, 5, replica="b", history=1)
    assert project.output() == [0, 1, 2, 104, 105]


def test_a_point_before_any_rows_leaves_an_empty_table(project: SinkSetup) -> None:
    sender = project.sender("a")
    for epoch, rows in enumerate([[], [], [2], [3]]):
        sender(Rows(rows), epoch)
    restored(project, 1)
    assert project.output() == []


def test_a_restore_to_the_last_epoch_changes_no_row_and_shuts_the_table_all_the_same(
    project: SinkSetup,
) -> None:
    commit(project, 0, 1, 2)
    zombie = project.sink("zombie")
    zombie.prepare(SCHEMA)
    restored(project, 2)
    assert project.output() == [0, 1, 2]
    with pytest.raises(PermanentError, match="history 0 of words has ended"):
        zombie.commit(zombie.stage(Rows([4]), 4, write=True), 4)
    assert project.output() == [0, 1, 2]


def test_a_zombie_that_had_staged_can_neither_commit_nor_enter(project: SinkSetup) -> None:
    commit(project, 0, 1, 2)
    zombie = project.sink("zombie")
    zombie.prepare(SCHEMA)
    assert not zombie.is_done(4)
    staged = zombie.stage(Rows([4]), 4, write=True)
    restored(project, 1)
    with pytest.raises(PermanentError, match="was rolled back to an earlier epoch"):
        zombie.commit(staged, 4)
    with pytest.raises(PermanentError, match="its history is now 1, not 0"):
        zombie.ledger.write(4, rows=1, digest="bad")
    assert project.output() == [0, 1]
    assert [entry.epoch for entry in project.store.ledger.between(NAME, 0, 99)] == [0, 1]
    commit(project, 2, 3, 4, replica="b", history=1)
    assert project.output() == [0, 1, 102, 104]


def test_a_zombie_that_is_asked_for_its_next_epoch_leaves(project: SinkSetup) -> None:
    commit(project, 0, 1, 2)
    zombie = project.sender("zombie")
    restored(project, 1)
    with pytest.raises(PermanentError, match="was rolled back to an earlier epoch"):
        zombie(Rows([2]), 2)
    assert project.store.incidents.of(NAME) == []


def test_what_a_zombie_commits_before_the_roll_is_rolled_with_the_rest(project: SinkSetup) -> None:
    commit(project, 0, 1, 2)
    zombie = project.sink("zombie")
    zombie.prepare(SCHEMA)
    turn = begin(project, 1)
    zombie.commit(zombie.stage(Rows([4]), 4, write=True), 4)
    output_of(project).roll_back(turn)
    assert project.output() == [0, 1]


def test_a_roll_that_is_repeated_leaves_what_came_after_it(project: SinkSetup) -> None:
    commit(project, 0, 1, 2)
    turn = begin(project, 1)
    output = output_of(project)
    assert not output.is_rolled_back(writer(NAME, 1))
    output.roll_back(turn)
    assert output.is_rolled_back(writer(NAME, 1))
    commit(project, 2, replica="b", history=1)
    output.roll_back(turn)
    assert project.output() == [0, 1, 102]


def test_only_commits_of_the_way_that_the_stream_went_count(project: SinkSetup) -> None:
    commit(project, *range(10))
    restored(project, 5)
    commit(project, 6, 7, 8, replica="b", history=1)
    restored(project, 1)
    commit(project, 2, 3, 4, replica="c", history=2)
    table = DeltaTable(str(project.folder / "table"))
    epochs = table_epochs(table, NAME)
    assert epochs.counts == {0: 1, 1: 1, 2: 1, 4: 1}
    assert epochs.digests[4] == f"{204:016x}"
    assert epochs.first == 0
    assert sorted(table.to_pandas()["n"]) == [0, 1, 202, 204]


def test_a_second_restore_goes_back_on_the_way_that_the_stream_went(project: SinkSetup) -> None:
    commit(project, *range(10))
    restored(project, 5)
    commit(project, 6, 7, 8, replica="b", history=1)
    restored(project, 6)
    assert project.output() == [0, 1, 2, 4, 5, 106]
    restored(project, 5)
    assert project.output() == [0, 1, 2, 4, 5]


def test_what_others_did_to_the_table_up_to_the_point_stays(project: SinkSetup) -> None:
    commit(project, 0, 1, 2)
    DeltaTable(str(project.folder / "table")).delete("n = 1")
    commit(project, 4, 5, replica="b")
    restored(project, 2)
    assert project.output() == [0, 2]


def forget_log(project: SinkSetup) -> None:
    """Leave a checkpoint and nothing before it, and delete the files that no later version has."""
    table = DeltaTable(str(project.folder / "table"))
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    table.create_checkpoint()
    for old in sorted((project.folder / "table/_delta_log").glob("*.json")):
        if int(old.stem) < table.version():
            old.unlink()


def test_an_epoch_that_is_older_than_the_log_is_a_point_like_any_other(project: SinkSetup) -> None:
    commit(project, *range(8))
    forget_log(project)
    restored(project, 1)
    assert project.output() == [0, 1]


def test_without_a_table_there_is_nothing_to_roll(project: SinkSetup) -> None:
    with pytest.raises(PermanentError, match="there is no table"):
        output_of(project).require_possible(2, [])


def dead_letters(path: Path, *epochs: int, history: int = 0) -> None:
    for epoch in epochs:
        row = {"epoch": epoch, "file": "f", "position": 0, "reason": "r", "record": "x"}
        written = Transaction(dead_letter_writer(NAME, history), epoch)
        write_deltalake(
            str(path),
            pa.Table.from_pylist([row], schema=DEAD_LETTERS),
            mode="append",
            commit_properties=CommitProperties(app_transactions=[written]),
        )


def epochs_in(path: Path) -> list[int]:
    return sorted(DeltaTable(str(path)).to_pandas()["epoch"])


@pytest.mark.parametrize(("epoch", "left"), [(1, [0, 1]), (2, [0, 1, 2]), (0, [0])])
def test_dead_letters_of_later_epochs_go_and_the_table_is_shut(
    tmp_path: Path, epoch: int, left: list[int]
) -> None:
    path = tmp_path / "aside"
    dead_letters(path, 0, 1, 2)
    rolling = TableRollback(str(path), nowhere)
    rolling.roll_back_dead_letters(RollbackPoint(stream=NAME, history=1, epoch=epoch))
    assert epochs_in(path) == left
    assert rolling.is_rolled_back(dead_letter_writer(NAME, 1))
    newest = DeltaTable(str(path)).transaction_version(dead_letter_writer(NAME, 0))
    assert newest is not None
    assert newest > 10**9


def test_a_table_of_dead_letters_that_is_not_there_yet_is_made_and_shut(tmp_path: Path) -> None:
    path = tmp_path / "aside"
    TableRollback(str(path), nowhere).roll_back_dead_letters(
        RollbackPoint(stream=NAME, history=1, epoch=4)
    )
    table = DeltaTable(str(path))
    assert table.transaction_version(dead_letter_writer(NAME, 0)) is not None
    assert table.transaction_version(dead_letter_writer(NAME, 1)) == 4


def a_copy(source: Path, target: Path, name: str) -> TableCopy:
    return TableCopy(
        source=str(source),
        target=str(target),
        stream="trial",
        writer=name,
        epoch=2,
        connect=nowhere,
        keep_seconds=60.0,
    )


def test_a_copy_has_the_rows_up_to_the_epoch_in_one_commit(project: SinkSetup) -> None:
    commit(project, 0, 1, 2, 4, 5)
    source, target = project.folder / "table", project.folder / "trial"
    copy = a_copy(source, target, writer("trial", 0))
    before = DeltaTable(str(source)).version()
    assert not copy.is_done()
    later = project.store.ledger.between(NAME, 3, 5)
    copy.require_copyable(later)
    assert copy.copy(later) == 3
    assert copy.is_done()
    table = DeltaTable(str(target))
    assert sorted(table.to_pandas()["n"]) == [0, 1, 2]
    assert table.transaction_version(writer("trial", 0)) == 2
    epochs = table_epochs(table, "trial")
    assert (epochs.counts, epochs.first, epochs.rows) == ({}, 3, {0: 1, 1: 1, 2: 1})
    assert DeltaTable(str(source)).version() == before


def test_copied_twice_is_copied_once(project: SinkSetup) -> None:
    commit(project, 0, 1, 2)
    copy = a_copy(project.folder / "table", project.folder / "trial", writer("trial", 0))
    copy.copy([])
    copy.copy([])
    assert sorted(DeltaTable(copy.target).to_pandas()["n"]) == [0, 1, 2]


def test_a_table_of_another_writer_is_not_copied_over(project: SinkSetup) -> None:
    commit(project, 0, 1, 2)
    target = project.folder / "trial"
    write_deltalake(str(target), pa.table({"n": [1]}))
    write_deltalake(str(target), pa.table({"n": [2]}), mode="append")
    with pytest.raises(PermanentError, match="already holds a table"):
        a_copy(project.folder / "table", target, writer("trial", 0)).is_done()


def test_dead_letters_are_copied_up_to_the_epoch(tmp_path: Path) -> None:
    source, target = tmp_path / "aside", tmp_path / "trial"
    dead_letters(source, 0, 2, 5)
    copy = a_copy(source, target, dead_letter_writer("trial", 0))
    assert copy.copy_dead_letters() == 2
    assert epochs_in(target) == [0, 2]
    assert copy.is_done()
    configuration = DeltaTable(str(target)).metadata().configuration
    assert configuration["delta.logRetentionDuration"] == "interval 60 seconds"


def test_a_stream_without_dead_letters_so_far_gives_its_fork_an_empty_table(tmp_path: Path) -> None:
    copy = a_copy(tmp_path / "aside", tmp_path / "trial", dead_letter_writer("trial", 0))
    assert copy.copy_dead_letters() == 0
    assert copy.is_done()
