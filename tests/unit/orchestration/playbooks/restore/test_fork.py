"""The fork playbook: a stream of its own with another's past, and the other as it was."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from deltalake import DeltaTable

from holdfast.assets.outputs import audit
from holdfast.configs.project import ProjectConfig
from holdfast.ft_policies.errors import PermanentError
from holdfast.orchestration.playbooks.restore import fork as fork_module
from holdfast.orchestration.playbooks.restore.fork import Fork
from holdfast.orchestration.playbooks.restore.point import RestoreTarget
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.vault.catalogue import adopt
from holdfast.streaming.sinks.delta.lineage import writer
from tests.builders.projects import stream_yaml
from tests.builders.recorded_stream import a_restorable_stream, entries, output, snapshots
from tests.builders.streams import CLICKS, decide_epoch
from tests.builders.vaults import tree
from tests.fakes.projects import SimulatedProject, simulated_projects

STEPS = ["CopySnapshot", "CopyOutput", "CopyEpochs", "WriteDeclaration"]
AT_5 = RestoreTarget(epoch=5)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[SimulatedProject]:
    with simulated_projects(tmp_path).open() as project:
        a_restorable_stream(project)
        yield project


def forked(project: SimulatedProject, asked: RestoreTarget = AT_5, **options: Any) -> list[str]:
    given = {"into": "trial", **options}
    return [step.name for step in Fork(project, CLICKS, "run", target=asked, **given).steps()]


def original(project: SimulatedProject) -> dict[str, Any]:
    """Everything that there is of the original."""
    store = project.store
    return {
        "epochs": store.epochs.between(CLICKS, 0, 99),
        "ledger": store.ledger.between(CLICKS, 0, 99),
        "snapshots": store.snapshots.of(CLICKS, available_only=False),
        "histories": store.restores.of(CLICKS),
        "stream": store.streams.get(CLICKS),
        "journal": store.journal.of(CLICKS),
        "objects": {k: o for k, o in project.objects.objects.items() if k.startswith("clicks/")},
        "table": tree(Path(project.config.table_path(CLICKS))),
        "file": (project.config.root / "configs/streams/clicks.yaml").read_text(),
    }


def as_declared(project: SimulatedProject) -> SimulatedProject:
    """The project as the next process opens it."""
    config = ProjectConfig.load(project.config.root)
    return SimulatedProject(config, project.store, project.objects, object_store_serves=True)


def demand_fork(project: SimulatedProject) -> None:
    again = as_declared(project)
    assert output(again, "trial") == entries(again, "trial") == [0, 1, 2, 3, 4, 5]
    assert snapshots(again, "trial") == [4]
    assert [row.id for row in again.store.snapshots.of("trial")] == ["000000000004-1-r1"]
    assert again.vault("trial").verify("000000000004-1-r1") == []
    table = DeltaTable(again.config.table_path("trial"))
    assert table.transaction_version(writer("trial", 0)) == 5
    assert audit(again, "trial").passed


def test_a_fork_has_the_past_of_the_original_which_stays_as_it_was(
    project: SimulatedProject,
) -> None:
    before = original(project)
    assert forked(project) == STEPS
    demand_fork(project)
    assert original(project) == before


@pytest.mark.parametrize("done", range(1, 4))
def test_a_fork_that_was_cut_short_is_finished_by_the_next(
    project: SimulatedProject, done: int
) -> None:
    steps = Fork(project, CLICKS, "run", target=AT_5, into="trial").steps()
    assert [next(steps).name for _ in range(done)] == STEPS[:done]
    assert "trial" not in as_declared(project).config.streams
    assert forked(project) == STEPS[done:]
    demand_fork(project)


def test_a_fork_that_was_cut_short_before_a_newer_snapshot_came_is_finished_with_that(
    project: SimulatedProject,
) -> None:
    older = project.vault(CLICKS).manifest("000000000001-1-r1")
    adopt(project, "trial", older, project.vault(CLICKS))
    assert forked(project) == STEPS
    demand_fork(project)


def test_a_fork_with_a_part_of_its_epochs_gets_the_others(project: SimulatedProject) -> None:
    project.store.forks.copy(CLICKS, into="trial", through_epoch=2)
    assert forked(project) == STEPS
    assert [entry.epoch for entry in project.store.ledger.between("trial", 0, 99)] == [*range(6)]


def test_a_fork_goes_its_own_way(project: SimulatedProject) -> None:
    forked(project)
    decide_epoch(project, 6, name="trial")
    assert project.store.epochs.get("trial", 6) is not None
    assert len(project.store.epochs.between("trial", 0, 99)) == 7
    assert len(project.store.epochs.between(CLICKS, 0, 99)) == 8


def test_the_declaration_is_the_originals_but_for_name_and_output(
    project: SimulatedProject,
) -> None:
    forked(project, output="elsewhere/trial")
    folder = project.config.root / "configs/streams"
    theirs, ours = (yaml.safe_load((folder / f"{n}.yaml").read_text()) for n in (CLICKS, "trial"))
    assert ours.pop("name") == "trial"
    assert ours.pop("sink") == {"kind": "delta", "path": "elsewhere/trial"}
    assert ours == {key: value for key, value in theirs.items() if key not in ("name", "sink")}
    again = as_declared(project)
    assert again.config.table_path("trial") == str(project.config.root / "elsewhere/trial")
    assert output(again, "trial") == [0, 1, 2, 3, 4, 5]


def test_a_fork_of_a_fork_may_begin_before_the_first_one_did(project: SimulatedProject) -> None:
    forked(project)
    again = as_declared(project)
    names = [
        step.name
        for step in Fork(
            again, "trial", "run", target=RestoreTarget(epoch=5), into="another"
        ).steps()
    ]
    assert names == STEPS
    last = as_declared(project)
    assert output(last, "another") == [0, 1, 2, 3, 4, 5]
    list(Fork(again, "trial", "run", target=RestoreTarget(epoch=4), into="a_third").steps())
    assert output(as_declared(project), "a_third") == [0, 1, 2, 3, 4]


def test_a_plan_tells_the_steps_and_changes_nothing(project: SimulatedProject) -> None:
    before = original(project)
    fork = Fork(project, CLICKS, "", into="trial", target=AT_5)
    steps, point = fork.plan(), fork.point
    assert [type(step).__name__ for step in steps] == STEPS
    assert point.epoch == 5
    assert not Path(project.config.home / "tables" / "trial").exists()
    assert original(project) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"into": CLICKS}, "there is a stream clicks already|would write to"),
        ({"into": "Not A Name"}, "the fork Not A Name of clicks cannot be declared: name"),
        (
            {"output": ".holdfast/tables/clicks"},
            "sink.path: .*: is already used by the table of clicks",
        ),
        ({"output": "out"}, "sink.path: .*: contains the table of another"),
        ({"output": "out/another/data"}, "sink.path: .*: lies in the table of another"),
        ({"output": "configs"}, "the folder of the declarations"),
        ({"output": "s3://streams/trial"}, "the embedded object store stores snapshots only"),
        ({"output": "notes"}, "it is not empty, it has notes.txt"),
    ],
)
def test_what_cannot_be_forked_is_reported_before_anything_is_written(
    project: SimulatedProject, options: dict[str, str], message: str
) -> None:
    root = project.config.root
    another = stream_yaml(name="another", sink={"kind": "delta", "path": "out/another"})
    (root / "configs" / "streams" / "another.yaml").write_text(another)
    (root / "notes").mkdir()
    (root / "notes" / "notes.txt").write_text("mine")
    before = original(project), tree(root / "notes"), tree(root / "configs")
    with pytest.raises(PermanentError, match=message):
        forked(project, **options)
    assert (original(project), tree(root / "notes"), tree(root / "configs")) == before
    assert list(project.vault("trial").list()) == []
    assert not (root / "out").exists()


def test_output_that_is_not_there_is_reported(project: SimulatedProject) -> None:
    Path(project.config.table_path(CLICKS)).rename(project.config.root / "moved")
    with pytest.raises(PermanentError, match=r"there is no table .*tables/clicks") as refused:
        forked(project)
    assert "put the table back if it was moved" in refused.value.hint


def test_the_name_of_a_stream_that_once_was_is_taken(project: SimulatedProject) -> None:
    decide_epoch(project, 0, name="trial")
    with pytest.raises(PermanentError, match="there are epochs of a stream trial already"):
        forked(project)


def test_snapshots_of_a_stream_that_once_was_are_not_taken_for_the_forks(
    project: SimulatedProject,
) -> None:
    manifest = project.vault(CLICKS).manifest("000000000006-1-r1")
    project.vault("trial").adopt(manifest, project.vault(CLICKS))
    with pytest.raises(PermanentError, match="there are snapshots of a stream trial already"):
        forked(project)


def test_a_sink_of_ones_own_is_not_forked(tmp_path: Path) -> None:
    sink = {"kind": "callable", "function": "json:dumps"}
    objective = {"recovery_time": "10s", "guarantee": "rollback"}
    with (
        simulated_projects(tmp_path / "other", sink=sink, objective=objective).open() as project,
        pytest.raises(PermanentError, match="its sink would write where the original writes"),
    ):
        forked(project)


def test_its_storage_is_tried_before_anything_is_written_there(
    project: SimulatedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_store: ControlStore, path: str, _connect: object) -> None:
        raise PermanentError(f"commits to {path} can be overwritten")

    monkeypatch.setattr(fork_module, "require_conditional_writes", refuse)
    with pytest.raises(PermanentError, match="can be overwritten"):
        forked(project)
    assert list(project.config.root.rglob("*trial*/_delta_log")) == []
