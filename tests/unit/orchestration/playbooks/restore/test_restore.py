"""The restore playbook on a real control store and a real table, with snapshots in memory."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from deltalake import DeltaTable

from holdfast.ft_policies.errors import PermanentError
from holdfast.orchestration.playbooks.launch import launch_primary
from holdfast.orchestration.playbooks.recover import Start
from holdfast.orchestration.playbooks.restore.point import RestoreTarget, parse_time
from holdfast.orchestration.playbooks.restore.restore import Restore
from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.records import DesiredState, EpochProposal, Slot
from holdfast.resources.control_store.schema import epochs, ledger
from holdfast.resources.project import Project
from holdfast.streaming.sinks.delta.lineage import CLOSED, dead_letter_writer
from holdfast.streaming.spec import ReplicaSpec
from tests.builders.recorded_stream import (
    a_restorable_stream,
    entries,
    open_restore,
    output,
    snapshots,
)
from tests.builders.streams import CLICKS, PATIENT, a_primary, commit_epochs
from tests.fakes.drivers import simulated_drivers
from tests.fakes.projects import SimulatedProject, simulated_projects

STEPS = ["BeginHistory", "MarkSnapshots", "RollOutput", "EndRestore"]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[SimulatedProject]:
    with simulated_projects(tmp_path, supervision=PATIENT).open() as project:
        a_restorable_stream(project)
        yield project


AT_5 = RestoreTarget(epoch=5)


def restored(project: Project, asked: RestoreTarget = AT_5, **options: Any) -> list[str]:
    return [
        step.name
        for step in Restore(project, CLICKS, "run", target=asked, why="bad app", **options).steps()
    ]


def demand_back_at_5(project: Project, history: int = 1) -> None:
    assert output(project) == entries(project) == [0, 1, 2, 3, 4, 5]
    assert snapshots(project) == [4, 1]
    assert (open_restore(project, history - 1), open_restore(project, history)) == (CLOSED, 5)
    newest = project.store.restores.newest(CLICKS)
    assert newest is not None
    assert (newest.history, newest.epoch, newest.finished) == (history, 5, True)
    assert len(project.store.epochs.between(CLICKS, 0, 99)) == 8


def test_state_output_and_ledger_are_back_at_the_epoch(project: Project) -> None:
    assert restored(project) == STEPS
    demand_back_at_5(project)


def test_the_newest_snapshot_up_to_the_epoch_is_noted_with_why(project: Project) -> None:
    restored(project)
    newest = project.store.restores.newest(CLICKS)
    assert newest is not None
    assert (newest.snapshot, newest.why) == ("000000000004-1-r1", "bad app")


def test_it_closes_the_incidents_of_epochs_that_are_computed_again(project: Project) -> None:
    def opened(kind: IncidentKind, epoch: int) -> str:
        key = f"{kind}/{epoch}"
        detail = {"epoch": epoch}
        return project.store.incidents.open(stream=CLICKS, key=key, kind=kind, detail=detail).id

    stay = {opened(IncidentKind.INPUT_DIFFERS, 5), opened(IncidentKind.DIGEST_DIFFERS, 6)}
    opened(IncidentKind.INPUT_DIFFERS, 6)
    opened(IncidentKind.OUTPUT_LOST, 7)
    restored(project)
    assert {incident.id for incident in project.store.incidents.of(CLICKS)} == stay


@pytest.mark.parametrize("done", range(1, 5))
def test_a_restore_that_was_cut_short_is_finished_by_the_next(project: Project, done: int) -> None:
    steps = Restore(project, CLICKS, "run", target=RestoreTarget(epoch=5), why="").steps()
    assert [next(steps).name for _ in range(done)] == STEPS[:done]
    assert restored(project) == STEPS[done:]
    demand_back_at_5(project)


def test_one_that_is_half_done_is_finished_without_naming_the_point(project: Project) -> None:
    next(Restore(project, CLICKS, "run", target=RestoreTarget(epoch=5), why="").steps())
    assert restored(project, RestoreTarget()) == STEPS[1:]
    demand_back_at_5(project)


def test_one_that_has_only_stopped_the_stream_is_finished_without_naming_the_point(
    project: Project,
) -> None:
    asked = {"epoch": 5, "snapshot": None, "why": "bad app", "run": "died"}
    project.store.streams.desire(CLICKS, DesiredState.STOPPED)
    project.store.restores.request(CLICKS, **asked)
    assert restored(project, RestoreTarget()) == STEPS
    demand_back_at_5(project)


def test_an_old_request_is_not_finished_once_the_stream_was_started_again(
    project: Project,
) -> None:
    asked = {"epoch": 5, "snapshot": None, "why": "bad app", "run": "died"}
    project.store.restores.request(CLICKS, **asked)
    a_primary(project, "later")
    project.store.streams.desire(CLICKS, DesiredState.STOPPED)
    with pytest.raises(PermanentError, match="the restore target is missing"):
        restored(project, RestoreTarget())


def test_one_that_is_half_done_gives_way_to_no_other_and_lets_no_replica_start(
    project: Project,
) -> None:
    next(Restore(project, CLICKS, "run", target=RestoreTarget(epoch=5), why="").steps())
    for point in (
        RestoreTarget(epoch=3),
        RestoreTarget(epoch=7),
        RestoreTarget(snapshot="000000000006-1-r1"),
    ):
        with pytest.raises(PermanentError, match="restore to epoch 5 is half done") as message:
            restored(project, point)
        assert "run `holdfast restore clicks --epoch 5` to finish it" in message.value.hint
    with pytest.raises(PermanentError, match="restore to epoch 5 is half done") as refused:
        list(Start(project, CLICKS, "run").steps())
    assert "holdfast restore clicks --epoch 5" in refused.value.hint
    project.store.streams.desire(CLICKS, DesiredState.RUNNING)
    with pytest.raises(PermanentError, match="half done"):
        launch_primary(project, CLICKS)
    assert project.store.replicas.of(CLICKS) == []


def test_a_second_restore_goes_on_from_the_first(project: Project) -> None:
    restored(project, RestoreTarget(epoch=6))
    assert restored(project) == STEPS
    demand_back_at_5(project, history=2)


def test_a_restore_to_where_the_stream_is_already_does_nothing(project: Project) -> None:
    restored(project)
    assert restored(project) == []
    assert restored(project, RestoreTarget(snapshot="000000000004-1-r1")) == STEPS


def test_a_stream_that_ran_is_stopped_and_started_in_the_new_history(
    tmp_path: Path, project: Project
) -> None:
    project.store.streams.desire(CLICKS, DesiredState.RUNNING)
    a_primary(project, "p1", alive=False)
    with simulated_drivers(project) as drivers:
        names = restored(project, keep_alive=drivers.act)
        primary = project.store.replicas.live(CLICKS, Slot.PRIMARY)
    assert names == ["StopStream", *STEPS, "StartStream"]
    assert primary is not None
    assert ReplicaSpec.load(Path(primary.folder)).history == 1
    demand_back_at_5(project)


def test_the_newest_epoch_by_a_time_is_meant(project: Project) -> None:
    apart = sa.update(ledger).values(committed_at=ledger.c.committed_at + ledger.c.epoch)
    project.store._database.execute(apart)
    entry = project.store.ledger.get(CLICKS, 5)
    assert entry is not None
    assert restored(project, RestoreTarget(at=entry.committed_at)) == STEPS
    demand_back_at_5(project)


def test_the_epoch_of_a_snapshot_is_meant(project: Project) -> None:
    restored(project, RestoreTarget(snapshot="000000000004-1-r1"))
    assert output(project) == entries(project) == [0, 1, 2, 3, 4]


def test_a_damaged_snapshot_is_passed_over(project: SimulatedProject) -> None:
    manifest = project.vault(CLICKS).manifest("000000000004-1-r1")
    (pack,) = set(manifest.packs) - set(project.vault(CLICKS).manifest("000000000001-1-r1").packs)
    project.objects.truncate(f"clicks/packs/{pack}", to=1)
    restored(project)
    newest = project.store.restores.newest(CLICKS)
    assert newest is not None
    assert newest.snapshot == "000000000001-1-r1"


def test_a_plan_tells_what_is_undone_and_changes_nothing(project: Project) -> None:
    plan = Restore(project, CLICKS, "plan", target=RestoreTarget(epoch=5)).look_ahead()
    assert [type(step).__name__ for step in plan.steps] == STEPS
    assert plan.point is not None
    assert (plan.point.undone_epochs, plan.point.undone_rows) == (2, 2)
    assert (plan.point.first_computed, plan.point.computed_rows) == (5, 30)
    assert project.store.restores.newest(CLICKS) is None
    assert output(project) == entries(project) == list(range(8))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (RestoreTarget(epoch=9), "epoch 9 of clicks is not committed: the last one is 7"),
        (RestoreTarget(at=1.0), "had committed nothing by 1970-01-01T00:00:01"),
        (RestoreTarget(snapshot="000000000002-1-r1"), "there is no snapshot 000000000002-1-r1"),
        (RestoreTarget(), "the restore target is missing"),
    ],
)
def test_a_point_that_is_not_there_is_reported(
    project: Project, asked: RestoreTarget, message: str
) -> None:
    with pytest.raises(PermanentError, match=message) as refused:
        restored(project, asked)
    assert refused.value.hint
    assert project.store.restores.newest(CLICKS) is None


def test_a_snapshot_that_a_restore_has_superseded_is_no_point(project: Project) -> None:
    restored(project)
    with pytest.raises(PermanentError, match="was superseded by a restore"):
        restored(project, RestoreTarget(snapshot="000000000006-1-r1"))


def test_without_a_snapshot_all_is_computed_from_epoch_0(project: SimulatedProject) -> None:
    project.objects.objects.clear()
    plan = Restore(project, CLICKS, "plan", target=RestoreTarget(epoch=5)).look_ahead()
    assert plan.point is not None
    assert (plan.point.snapshot, plan.point.first_computed) == (None, 0)


def test_an_epoch_log_that_lacks_what_is_to_be_computed_is_reported(
    project: SimulatedProject,
) -> None:
    project.objects.objects.clear()
    project.store._database.execute(_without_epoch_0())
    with pytest.raises(PermanentError, match="lacks epoch 0: all epochs are computed from epoch 0"):
        restored(project)


def _without_epoch_0() -> Any:
    return epochs.delete().where(epochs.c.epoch == 0)


def test_a_stream_that_has_committed_nothing_has_nothing_to_go_back_to(tmp_path: Path) -> None:
    with (
        simulated_projects(tmp_path / "other").open() as project,
        pytest.raises(PermanentError, match="has committed nothing yet"),
    ):
        restored(project)


def test_a_sink_of_ones_own_is_kept_only_if_the_user_says_so(tmp_path: Path) -> None:
    sink = {"kind": "callable", "function": "json:dumps"}
    objective = {"recovery_time": "10s", "guarantee": "rollback"}
    with simulated_projects(tmp_path / "other", sink=sink, objective=objective).open() as project:
        commit_epochs(project, 8)
        with pytest.raises(PermanentError, match="cannot be rolled back") as refused:
            restored(project)
        assert "--keep-output" in refused.value.hint
        assert restored(project, keep_output=True) == [
            "BeginHistory",
            "MarkSnapshots",
            "EndRestore",
        ]
        assert entries(project) == [0, 1, 2, 3, 4, 5]


def test_a_table_is_never_kept(project: Project) -> None:
    with pytest.raises(PermanentError, match="is a table"):
        restored(project, keep_output=True)


def test_a_point_has_one_name() -> None:
    with pytest.raises(PermanentError, match="more than one of epoch, time and snapshot"):
        RestoreTarget(epoch=5, snapshot="000000000004-1-r1")


def test_times_are_read_with_a_zone_or_as_utc() -> None:
    assert parse_time("1970-01-01T00:01:00") == parse_time("1970-01-01T01:01:00+01:00") == 60.0
    with pytest.raises(PermanentError, match="is not a time"):
        parse_time("yesterday")


@pytest.fixture
def with_files(tmp_path: Path) -> Iterator[SimulatedProject]:
    """A stream of files that sets bad records aside; its epochs were decided with a file each."""
    root = tmp_path / "other"
    source = {
        "kind": "files",
        "path": "input",
        "format": "jsonl",
        "schema": "id bigint",
        "dead_letters": {},
    }
    projects = simulated_projects(root, source=source)
    (root / "input").mkdir()
    with projects.open() as project:
        for epoch in range(8):
            decide_a_file(project, root / "input" / f"{epoch}.jsonl", epoch)
        a_restorable_stream(project)
        yield project


def decide_a_file(project: Project, file: Path, epoch: int) -> None:
    file.write_text('{"id": 1}\n')
    message = file.stat()
    assigned = {
        "name": file.name,
        "size": message.st_size,
        "changed_ns": message.st_mtime_ns,
        "rows": 1,
    }
    project.store.epochs.propose(
        EpochProposal(
            stream=CLICKS,
            epoch=epoch,
            start={"files": epoch},
            end={"files": epoch + 1},
            input={"files": [assigned]},
            rows=1,
            token=1,
            proposer="r1",
        )
    )


def test_input_that_is_gone_is_reported_before_anything_is_touched(with_files: Project) -> None:
    (with_files.config.root / "input" / "6.jsonl").unlink()
    with pytest.raises(PermanentError, match=r"1 input files .* the first is 6.jsonl"):
        restored(with_files)
    assert with_files.store.restores.newest(CLICKS) is None


def test_input_that_the_snapshot_covers_may_be_gone(with_files: Project) -> None:
    (with_files.config.root / "input" / "3.jsonl").unlink()
    assert restored(with_files) == STEPS


def test_dead_letters_are_taken_back_with_the_output(with_files: Project) -> None:
    restored(with_files)
    path = with_files.config.dead_letters_path(CLICKS)
    assert path is not None
    assert DeltaTable(path).transaction_version(dead_letter_writer(CLICKS, 1)) == 5
    configuration = DeltaTable(path).metadata().configuration
    assert configuration["delta.logRetentionDuration"] == "interval 7200 seconds"
    demand_back_at_5(with_files)


@pytest.mark.parametrize("target", [RestoreTarget(epoch=1), RestoreTarget(at=1.0)])
def test_a_restore_to_before_the_pruned_epochs_is_refused(
    project: Project, target: RestoreTarget
) -> None:
    project.store.retention.prune_epochs(CLICKS, before=4)
    with pytest.raises(PermanentError, match="epochs before 4 are pruned") as refused:
        restored(project, target)
    assert "epoch 4" in refused.value.hint


def test_a_pruned_stream_is_restored_from_a_snapshot_that_is_kept(project: Project) -> None:
    project.store.retention.prune_epochs(CLICKS, before=4)
    assert restored(project) == STEPS
    assert entries(project) == [4, 5]
