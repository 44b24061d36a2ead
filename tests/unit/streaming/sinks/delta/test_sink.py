"""The Delta sink's commits and the fate of staged files, on a real table, without Spark."""

import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.resources.control_store.epoch_records import digest_input
from holdfast.resources.control_store.schema import epochs, ledger
from holdfast.resources.control_store.store import ControlStore
from holdfast.streaming.sinks.delta.sink import DeltaSink, _columns
from holdfast.streaming.sinks.sender import Sender
from tests.builders.control_rows import a_proposal, an_entry, decide, lose
from tests.builders.delta_sinks import NAME, SCHEMA, PlainDeltaSink, Rows, SinkSetup


@pytest.fixture
def project(tmp_path: Path) -> Iterator[SinkSetup]:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as store:
        yield SinkSetup(tmp_path, store)


def test_kept_epochs_are_committed_when_opened_and_their_files_stay(project: SinkSetup) -> None:
    sender = project.sender("a", sending=False)
    for epoch in range(3):
        sender(Rows([epoch]), epoch)
    assert DeltaTable(str(project.folder / "table")).version() == 0
    sender.open()
    assert (project.output(), project.folders()) == ([0, 1, 2], ["0-a", "1-a", "2-a"])


def test_pruned_epochs_leave_no_files(project: SinkSetup) -> None:
    primary, standby = project.sender("a"), project.sender("b", sending=False)
    for epoch in range(2):
        standby(Rows([epoch]), epoch)
        primary(Rows([epoch]), epoch)
    standby(Rows([2]), 2)
    standby.prune()
    assert (standby.held_back, project.folders()) == ((2,), ["0-a", "1-a", "2-b"])
    assert project.store.ledger.audit(NAME).disagreements == []


def test_the_loser_of_a_race_deletes_its_files(project: SinkSetup) -> None:
    first, second = project.sink("a"), project.sink("b")
    for sink in (first, second):
        sink.prepare(SCHEMA)
    staged = [sink.stage(Rows([0]), 0, write=True) for sink in (first, second)]
    first.commit(staged[0], 0)
    second.commit(staged[1], 0)
    assert (project.output(), project.folders()) == ([0], ["0-a"])


def test_another_look_at_the_table_before_the_commit_does_not_let_it_in_twice(
    project: SinkSetup,
) -> None:
    first, second = project.sink("a"), project.sink("b")
    for sink in (first, second):
        sink.prepare(SCHEMA)
    staged = second.stage(Rows([0]), 0, write=True)
    first.commit(first.stage(Rows([0]), 0, write=True), 0)
    assert second.is_done(0)  # as `prune` might, between staging and commit
    second.commit(staged, 0)
    assert (project.output(), project.folders()) == ([0], ["0-a"])


@pytest.mark.parametrize("answer", [DeltaError("timed out"), CommitFailedError("timed out")])
def test_a_commit_that_was_answered_with_an_error_keeps_its_files(
    project: SinkSetup, answer: Exception
) -> None:
    sender = project.sender("a", answer, sending=False)
    sender(Rows([0]), 0)
    try:
        sender.open()
    except TransientError:
        assert sender.held_back == (0,)
    sender.prune()
    sender.open()
    assert (sender.held_back, project.output(), project.folders()) == ((), [0], ["0-a"])


def test_a_commit_that_failed_while_another_was_faster_loses_its_files_at_last(
    project: SinkSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    standby = project.sender("b", sending=False)
    standby(Rows([0]), 0)
    with monkeypatch.context() as broken:
        broken.setattr(PlainDeltaSink, "_write", refuse)
        with pytest.raises(TransientError, match="no answer"):
            standby.open()
    primary = project.sender("a")
    for epoch in range(30):
        primary(Rows([epoch]), epoch)
    standby.prune()
    assert (standby.held_back, "0-b" in project.folders()) == ((), False)


def refuse(self: DeltaSink, *_: object) -> None:
    raise DeltaError("no answer")


def test_without_proof_the_files_are_left_to_vacuum(project: SinkSetup) -> None:
    sink = project.sink("a")
    sink.prepare(SCHEMA)
    staged = sink.stage(Rows([0]), 0, write=True)
    sink.commit(staged, 0)
    sink.discard(staged, 0)
    assert (project.output(), project.folders()) == ([0], ["0-a"])


def test_replicas_that_make_the_table_at_once_agree_on_it(project: SinkSetup) -> None:
    for number in range(5):
        folder = project.folder / str(number)
        folder.mkdir()
        with ControlStore.open(f"sqlite:///{folder}/control.db") as store:
            race_to_make_a_table(SinkSetup(folder, store))


def race_to_make_a_table(raced: SinkSetup) -> None:
    sinks = [raced.sink(name) for name in "abc"]
    at_once([lambda sink=sink: sink.prepare(SCHEMA) for sink in sinks])
    # delta-rs may have made it twice, one upon the other: a replica that opened the first reads it again.
    for epoch, sink in enumerate(sinks):
        sink.commit(sink.stage(Rows([epoch]), epoch, write=True), epoch)
    assert raced.output() == [0, 1, 2]
    raced.sink("d").prepare(SCHEMA)


def test_active_replication_commits_each_epoch_once_and_leaves_no_copies(
    project: SinkSetup,
) -> None:
    senders = [project.sender(name) for name in "ab"]

    def work(sender: Sender) -> None:
        for epoch in range(20):
            sender(Rows([epoch] if epoch % 4 else []), epoch)

    at_once([lambda sender=sender: work(sender) for sender in senders])
    assert project.output() == [epoch for epoch in range(20) if epoch % 4]
    assert len(project.folders()) == 15
    audit = project.store.ledger.audit(NAME)
    assert (audit.holes, audit.disagreements) == ([], [])
    assert len(project.store.ledger.between(NAME, 0, 100)) == 20


def test_replicas_that_differ_raise_an_incident_with_both_digests(project: SinkSetup) -> None:
    primary, standby = project.sender("a"), project.sender("b", sending=False)
    standby(Rows([8]), 0)
    primary(Rows([7]), 0)
    standby.prune()
    (incident,) = project.store.incidents.of(NAME)
    assert (incident.kind, incident.detail["epoch"]) == ("digest_differs", 0)
    assert incident.detail["first"]["digest"] == f"{7:016x}"
    assert incident.detail["second"] == {"replica": "b", "rows": 1, "digest": f"{8:016x}"}
    assert incident.detail["reason"] == (f"epoch 0: b computed {8:016x}, a had committed {7:016x}")


def test_a_replica_that_keeps_differing_has_one_open_incident(project: SinkSetup) -> None:
    primary, other = project.sender("a"), project.sender("b")

    def differ(epoch: int) -> None:
        primary(Rows([7]), epoch)
        other(Rows([8]), epoch)

    for epoch in range(3):
        differ(epoch)
    (incident,) = project.store.incidents.of(NAME)
    assert incident.detail["epoch"] == 0
    assert len(project.store.ledger.audit(NAME).disagreements) == 3
    project.store.incidents.close(incident.id, "mended")
    differ(3)
    (again,) = project.store.incidents.of(NAME)
    assert (again.key, again.detail["epoch"]) == (f"{NAME}/b/digest/2", 3)


def at_once(acts: list[Any]) -> None:
    """Perform them in threads; an error in one is raised here."""
    start = threading.Barrier(len(acts))
    errors: list[BaseException] = []

    def perform(act: Any) -> None:
        start.wait()
        try:
            act()
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    threads = [threading.Thread(target=perform, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_a_new_table_writes_few_checkpoints_and_keeps_its_versions_as_long_as_declared(
    project: SinkSetup,
) -> None:
    sink = project.sink("a")
    sink.spec = sink.spec.model_copy(update={"table_versions_seconds": 2 * 86400.0})
    sink.prepare(SCHEMA)
    configuration = DeltaTable(str(project.folder / "table")).metadata().configuration
    assert configuration == {
        "delta.checkpointInterval": "200",
        "delta.logRetentionDuration": "interval 172800 seconds",
        "delta.deletedFileRetentionDuration": "interval 180000 seconds",
    }


def test_a_table_without_a_declared_time_keeps_what_delta_keeps(project: SinkSetup) -> None:
    project.sink("a").prepare(SCHEMA)
    configuration = DeltaTable(str(project.folder / "table")).metadata().configuration
    assert configuration == {"delta.checkpointInterval": "200"}


def test_a_replica_that_read_the_table_before_its_log_was_deleted_commits(
    project: SinkSetup,
) -> None:
    late, other = project.sink("late"), project.sender("other")
    other(Rows([0]), 0)
    late.prepare(SCHEMA)
    staged = late.stage(Rows([4]), 4, write=True)
    for epoch in (1, 2, 3):
        other(Rows([epoch]), epoch)
    table = DeltaTable(str(project.folder / "table"))
    table.create_checkpoint()
    for commit in (project.folder / "table/_delta_log").glob("*.json"):
        if int(commit.stem) < table.version():
            commit.unlink()
    late.commit(staged, 4)
    assert project.output() == [0, 1, 2, 3, 4]


def killed_between_table_and_ledger(project: SinkSetup, numbers: list[int]) -> None:
    """A replica that committed epoch 0 to the table, and no more."""
    sink = project.sink("killed")
    sink.prepare(SCHEMA)
    sink.commit(sink.stage(Rows(numbers), 0, write=True), 0)


def test_an_epoch_that_only_the_table_has_is_entered_as_the_table_has_it(
    project: SinkSetup,
) -> None:
    decide(project.store, 1)
    killed_between_table_and_ledger(project, [10, 20])
    project.sender("b")(Rows([10]), 0)  # the job is not deterministic
    entry = project.store.ledger.get(NAME, 0)
    assert entry is not None
    assert (entry.replica, entry.rows, entry.digest) == ("killed", 2, f"{30:016x}")
    assert project.output() == [10, 20]
    assert [incident.kind for incident in project.store.incidents.of(NAME)] == ["digest_differs"]


def test_an_epoch_that_was_decided_again_after_it_was_committed_stops_the_stream(
    project: SinkSetup,
) -> None:
    decide(project.store, 1)
    killed_between_table_and_ledger(project, [1, 2])
    with project.store._database.write() as connection:  # the control store loses its last commit
        connection.exec_driver_sql("DELETE FROM epochs")
    project.store.epochs.propose(a_proposal(0, proposer="r2"))
    with pytest.raises(PermanentError, match="other input") as refused:
        project.sender("b")(Rows([3, 4]), 0)
    assert "restore" in refused.value.hint
    assert [incident.kind for incident in project.store.incidents.of(NAME)] == ["input_differs"]
    assert project.store.ledger.get(NAME, 0) is None


def test_an_epoch_that_was_read_before_its_decision_was_lost_is_not_committed(
    project: SinkSetup,
) -> None:
    old = project.store.epochs.propose(a_proposal(0))
    primary = project.sender("a")
    with project.store._database.write() as connection:  # the control store loses its last commit
        connection.exec_driver_sql("DELETE FROM epochs")
    project.store.epochs.propose(a_proposal(0, proposer="r2"))
    with pytest.raises(PermanentError, match="has read it, and the epoch log"):
        primary(Rows([1]), 0, read=digest_input(old))
    assert project.output() == []
    assert [incident.kind for incident in project.store.incidents.of(NAME)] == ["input_differs"]


@pytest.mark.parametrize("decided_again", [True, False])
def test_the_ledger_refuses_an_epoch_whose_decision_was_lost_during_its_commit(
    project: SinkSetup,
    decided_again: bool,  # noqa: FBT001 (pytest names it)
) -> None:
    old = project.store.epochs.propose(a_proposal(0))
    sink = project.sink("a")
    with project.store._database.write() as connection:
        connection.exec_driver_sql("DELETE FROM epochs")
    if decided_again:
        project.store.epochs.propose(a_proposal(0, proposer="r2"))
    with pytest.raises(PermanentError, match="has read it, and the epoch log"):
        sink.ledger.write(0, rows=1, digest="d", read=digest_input(old))
    assert project.store.ledger.get(NAME, 0) is None
    assert [incident.kind for incident in project.store.incidents.of(NAME)] == ["input_differs"]


def test_the_table_of_a_stream_is_recorded_when_it_is_created(project: SinkSetup) -> None:
    project.sender("a", sending=False)(Rows([0]), 0)
    recorded = project.store.outputs.get(NAME)
    table = DeltaTable(str(project.folder / "table"))
    assert recorded is not None
    assert recorded.path == str(project.folder / "table")
    assert recorded.table_id == table.metadata().name


def test_a_stream_does_not_continue_in_another_table(project: SinkSetup) -> None:
    project.sender("a")(Rows([0]), 0)
    shutil.rmtree(project.folder / "table")
    DeltaTable.create(str(project.folder / "table"), schema=_columns(SCHEMA))
    with pytest.raises(PermanentError, match="is not the table of words"):
        project.sender("b")(Rows([1]), 1)


def test_a_stream_waits_for_a_table_that_is_away(project: SinkSetup) -> None:
    project.sender("a")(Rows([0]), 0)
    (project.folder / "table").rename(project.folder / "unmounted")
    successor = project.sender("b")
    with pytest.raises(TransientError, match="is away"):
        successor(Rows([1]), 1)
    assert not (project.folder / "table").exists()
    (project.folder / "unmounted").rename(project.folder / "table")
    successor(Rows([1]), 1)
    assert project.output() == [0, 1]


def test_a_table_that_was_moved_with_its_project_is_the_same(project: SinkSetup) -> None:
    project.sender("a")(Rows([0]), 0)
    (project.folder / "table").rename(project.folder / "moved")
    sink = project.sink("b")
    sink.spec = sink.spec.model_copy(update={"table": str(project.folder / "moved")})
    sink.prepare(SCHEMA)
    recorded = project.store.outputs.get(NAME)
    assert recorded is not None
    assert recorded.path == str(project.folder / "moved")


def renamed(sink: PlainDeltaSink, name: str) -> PlainDeltaSink:
    stream = sink.spec.stream.model_copy(update={"name": name})
    sink.spec = sink.spec.model_copy(update={"stream": stream})
    return sink


def test_a_stream_does_not_adopt_the_table_of_another(project: SinkSetup) -> None:
    project.sender("a")(Rows([0]), 0)
    with pytest.raises(PermanentError, match="is the table of words, not of words_2"):
        renamed(project.sink("b"), "words_2").prepare(SCHEMA)
    assert project.store.outputs.get("words_2") is None
    (project.folder / "words_2").mkdir()
    with ControlStore.open(f"sqlite:///{project.folder}/words_2/control.db") as store:
        stranger = SinkSetup(project.folder, store)  # it has recorded no table of words
        with pytest.raises(PermanentError, match="is the table of words, not of words_2"):
            renamed(stranger.sink("c"), "words_2").prepare(SCHEMA)


def test_a_table_that_holdfast_did_not_make_is_of_the_first_stream(project: SinkSetup) -> None:
    DeltaTable.create(str(project.folder / "table"), schema=_columns(SCHEMA))
    project.sender("a")(Rows([0]), 0)
    with pytest.raises(PermanentError, match="is the table of words, not of words_2"):
        renamed(project.sink("b"), "words_2").prepare(SCHEMA)
    project.sender("c")(Rows([1]), 1)
    assert project.output() == [0, 1]


def kinds(project: SinkSetup) -> list[str]:
    return [incident.kind for incident in project.store.incidents.of(NAME)]


def input_of(project: SinkSetup, epoch: int) -> str:
    decided = project.store.epochs.get(NAME, epoch)
    assert decided is not None
    return digest_input(decided)


def entered(project: SinkSetup) -> list[tuple[int, str, str]]:
    entries = project.store.ledger.between(NAME, 0, 99)
    return [(entry.epoch, entry.replica, entry.digest) for entry in entries]


def decide_again(project: SinkSetup, epoch: int) -> None:
    lose(project.store, epochs, epoch)
    project.store.epochs.propose(a_proposal(epoch, proposer="r2"))


@pytest.mark.parametrize("rows", [[1], []])
def test_an_entry_that_the_ledger_has_lost_is_entered_again_by_the_replica_that_goes_on(
    project: SinkSetup, rows: list[int]
) -> None:
    decide(project.store, 4)
    primary = project.sender("a")
    for epoch in range(3):
        primary(Rows(rows), epoch, read=input_of(project, epoch))
    before = entered(project)
    lose(project.store, ledger, 1, 2)
    primary(Rows(rows), 3, read=input_of(project, 3))
    assert entered(project) == [*before, (3, "a", before[0][2])]
    assert kinds(project) == []


def test_a_replica_that_goes_on_stops_if_a_lost_entry_is_of_an_epoch_that_was_decided_again(
    project: SinkSetup,
) -> None:
    decide(project.store, 2)
    primary = project.sender("a")
    primary(Rows([]), 0, read=input_of(project, 0))
    lose(project.store, ledger, 0)
    decide_again(project, 0)
    with pytest.raises(PermanentError, match="epoch 0: a has read it, and the epoch log has other"):
        primary(Rows([1]), 1, read=input_of(project, 1))
    assert (kinds(project), entered(project)) == (["input_differs"], [])


def test_a_successor_enters_what_only_the_table_has(project: SinkSetup) -> None:
    decide(project.store, 4)
    primary = project.sender("a")
    for epoch in range(3):
        primary(Rows([epoch]), epoch, read=input_of(project, epoch))
    before = entered(project)
    lose(project.store, ledger, 1, 2)
    project.sender("b")(Rows([3]), 3, read=input_of(project, 3))
    assert entered(project) == [*before, (3, "b", f"{3:016x}")]


def test_without_any_record_of_a_lost_entry_the_stream_stops(project: SinkSetup) -> None:
    decide(project.store, 3)
    primary = project.sender("a")
    for epoch, rows in enumerate(([0], [])):
        primary(Rows(rows), epoch, read=input_of(project, epoch))
    lose(project.store, ledger, 1)
    with pytest.raises(PermanentError, match="epoch 1 is not in the ledger any more"):
        project.sender("b")(Rows([2]), 2, read=input_of(project, 2))
    assert kinds(project) == ["input_differs"]


def test_a_commit_that_another_made_of_other_input_meanwhile_stops_the_replica(
    project: SinkSetup,
) -> None:
    decide(project.store, 1)
    old = input_of(project, 0)
    first, second = project.sink("a"), project.sink("b")
    for sink in (first, second):
        sink.prepare(SCHEMA)
    decide_again(project, 0)
    staged = replace(second.stage(Rows([2]), 0, write=True), read=input_of(project, 0))
    first.commit(replace(first.stage(Rows([1]), 0, write=True), read=old), 0)
    with pytest.raises(PermanentError, match="with other input than b has read"):
        second.commit(staged, 0)
    assert (kinds(project), project.output()) == (["input_differs"], [1])


def test_an_epoch_of_the_table_is_compared_although_the_ledger_has_it(project: SinkSetup) -> None:
    decide(project.store, 1)
    old = input_of(project, 0)
    standby = project.sender("b", sending=False)
    decide_again(project, 0)
    standby(Rows([2]), 0, read=input_of(project, 0))
    first = project.sink("a")
    first.prepare(SCHEMA)
    first.commit(replace(first.stage(Rows([1]), 0, write=True), read=old), 0)
    project.store.ledger.commit(an_entry(0, replica="c"))
    with pytest.raises(PermanentError, match="with other input than b has read"):
        standby.prune()
    assert kinds(project) == ["input_differs"]


def test_a_table_that_is_older_than_the_ledger_is_refused(project: SinkSetup) -> None:
    primary = project.sender("a")
    for epoch in range(2):
        primary(Rows([epoch]), epoch)
    shutil.copytree(project.folder / "table", project.folder / "backup")
    for epoch, rows in enumerate(([2], []), start=2):
        primary(Rows(rows), epoch)
    shutil.rmtree(project.folder / "table")
    (project.folder / "backup").rename(project.folder / "table")
    successor = project.sender("b")
    for _ in range(2):
        with pytest.raises(PermanentError, match="ends with epoch 1, and the ledger has output"):
            successor(Rows([4]), 4)
    (incident,) = project.store.incidents.of(NAME)
    assert (incident.kind, incident.detail["epoch"]) == ("output_lost", 2)
    assert project.output() == [0, 1]


def test_what_an_old_table_lacks_is_computed_again_by_a_replica_that_starts_before_it(
    project: SinkSetup,
) -> None:
    """As after the doctor has set the newer snapshots aside."""
    primary = project.sender("a")
    primary(Rows([0]), 0)
    shutil.copytree(project.folder / "table", project.folder / "backup")
    primary(Rows([1]), 1)
    primary(Rows([2]), 2)
    shutil.rmtree(project.folder / "table")
    (project.folder / "backup").rename(project.folder / "table")
    successor = project.sender("b")
    for epoch in (1, 2, 3):
        successor(Rows([epoch]), epoch)
    assert project.output() == [0, 1, 2, 3]
    assert kinds(project) == []


def test_what_the_table_has_is_read_from_its_log_once(
    project: SinkSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide(project.store, 30)
    primary = project.sender("a")
    for epoch in range(30):
        primary(Rows([epoch]), epoch, read=input_of(project, epoch))
    read: list[int] = []
    history = DeltaTable.history

    def counted(table: DeltaTable, limit: int | None = None) -> list[dict[str, Any]]:
        read.append(limit or 0)
        return history(table, limit)

    monkeypatch.setattr(DeltaTable, "history", counted)
    successor = project.sender("b")
    for epoch in range(20, 30):
        successor(Rows([epoch]), epoch, read=input_of(project, epoch))
    assert read == [30]


def test_an_epoch_that_the_table_is_past_without_a_record_of_it_stops_the_replica(
    project: SinkSetup,
) -> None:
    decide(project.store, 3)
    primary = project.sender("a")
    for epoch, rows in enumerate(([0], [], [2])):
        primary(Rows(rows), epoch, read=input_of(project, epoch))
    lose(project.store, ledger, 1, 2)
    with pytest.raises(PermanentError, match="neither its log nor the ledger has it"):
        project.sender("b")(Rows([]), 1, read=input_of(project, 1))
    assert kinds(project) == ["input_differs"]


def test_an_epoch_that_a_paused_replica_commits_after_it_was_decided_again_without_rows_is_noticed(
    project: SinkSetup,
) -> None:
    decide(project.store, 2)
    old = input_of(project, 0)
    paused, primary = project.sink("paused"), project.sender("b")
    paused.prepare(SCHEMA)
    decide_again(project, 0)
    primary(Rows([]), 0, read=input_of(project, 0))
    paused.commit(replace(paused.stage(Rows([1]), 0, write=True), read=old), 0)
    with pytest.raises(PermanentError, match="with other input than b has read"):
        primary(Rows([1]), 1, read=input_of(project, 1))
    assert (kinds(project), project.output()) == (["input_differs"], [1])
