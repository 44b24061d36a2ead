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
from holdfast.orchestration.playbooks.restore.fork import Fork
from holdfast.orchestration.playbooks.restore.point import RestoreTarget
from holdfast.resources.vault.catalogue import adopt
from holdfast.streaming.sinks.lineage import writer
from tests.builders.recorded_stream import a_restorable_stream, entries, output, snapshots
from tests.builders.streams import CLICKS, decide_epoch
from tests.builders.vaults import tree
from tests.fakes.projects import SimulatedProject, simulated_projects

STEPS = ["CopySnapshot", "CopyOutput", "CopyEpochs", "WriteDeclaration"]
AT_5 = RestoreTarget(epoch=5)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimulatedProject]:
    with simulated_projects(tmp_path).open() as world:
        a_restorable_stream(world)
        yield world


def forked(world: SimulatedProject, asked: RestoreTarget = AT_5, **options: Any) -> list[str]:
    given = {"into": "trial", **options}
    return [one.name for one in Fork(world, CLICKS, "run", target=asked, **given).steps()]


def original(world: SimulatedProject) -> dict[str, Any]:
    """Everything that there is of the original."""
    store = world.store
    return {
        "epochs": store.epochs.between(CLICKS, 0, 99),
        "ledger": store.ledger.between(CLICKS, 0, 99),
        "snapshots": store.snapshots.of(CLICKS, available_only=False),
        "histories": store.restores.of(CLICKS),
        "stream": store.streams.get(CLICKS),
        "journal": store.journal.of(CLICKS),
        "objects": {k: o for k, o in world.objects.objects.items() if k.startswith("clicks/")},
        "table": tree(Path(world.config.table_path(CLICKS))),
        "file": (world.config.root / "configs/streams/clicks.yaml").read_text(),
    }


def as_declared(world: SimulatedProject) -> SimulatedProject:
    """The world as whoever opens it next sees it."""
    project = ProjectConfig.load(world.config.root)
    return SimulatedProject(project, world.store, world.objects, object_store_serves=True)


def demand_fork(world: SimulatedProject) -> None:
    again = as_declared(world)
    assert output(again, "trial") == entries(again, "trial") == [0, 1, 2, 3, 4, 5]
    assert snapshots(again, "trial") == [4]
    assert [row.id for row in again.store.snapshots.of("trial")] == ["000000000004-1-r1"]
    assert again.vault("trial").verify("000000000004-1-r1") == []
    table = DeltaTable(again.config.table_path("trial"))
    assert table.transaction_version(writer("trial", 0)) == 5
    assert audit(again, "trial").passed


def test_a_fork_has_the_past_of_the_original_which_stays_as_it_was(world: SimulatedProject) -> None:
    before = original(world)
    assert forked(world) == STEPS
    demand_fork(world)
    assert original(world) == before


@pytest.mark.parametrize("done", range(1, 4))
def test_a_fork_that_was_cut_short_is_finished_by_the_next(
    world: SimulatedProject, done: int
) -> None:
    steps = Fork(world, CLICKS, "run", target=AT_5, into="trial").steps()
    assert [next(steps).name for _ in range(done)] == STEPS[:done]
    assert "trial" not in as_declared(world).config.streams
    assert forked(world) == STEPS[done:]
    demand_fork(world)


def test_a_fork_that_was_cut_short_before_a_newer_snapshot_came_is_finished_with_that(
    world: SimulatedProject,
) -> None:
    older = world.vault(CLICKS).manifest("000000000001-1-r1")
    adopt(world, "trial", older, world.vault(CLICKS))
    assert forked(world) == STEPS
    demand_fork(world)


def test_a_fork_goes_its_own_way(world: SimulatedProject) -> None:
    forked(world)
    decide_epoch(world, 6, name="trial")
    assert world.store.epochs.get("trial", 6) is not None
    assert len(world.store.epochs.between("trial", 0, 99)) == 7
    assert len(world.store.epochs.between(CLICKS, 0, 99)) == 8


def test_the_declaration_is_the_originals_but_for_name_and_output(world: SimulatedProject) -> None:
    forked(world, output="elsewhere/trial")
    folder = world.config.root / "configs/streams"
    theirs, ours = (yaml.safe_load((folder / f"{n}.yaml").read_text()) for n in (CLICKS, "trial"))
    assert ours.pop("name") == "trial"
    assert ours.pop("sink") == {"kind": "delta", "path": "elsewhere/trial"}
    assert ours == {key: value for key, value in theirs.items() if key not in ("name", "sink")}
    again = as_declared(world)
    assert again.config.table_path("trial") == str(world.config.root / "elsewhere/trial")
    assert output(again, "trial") == [0, 1, 2, 3, 4, 5]


def test_a_fork_of_a_fork_keeps_what_came_in_one_commit(world: SimulatedProject) -> None:
    forked(world)
    again = as_declared(world)
    names = [
        one.name
        for one in Fork(
            again, "trial", "run", target=RestoreTarget(epoch=5), into="another"
        ).steps()
    ]
    assert names == STEPS
    last = as_declared(world)
    assert output(last, "another") == [0, 1, 2, 3, 4, 5]
    with pytest.raises(PermanentError, match="does not reach back to epoch 4"):
        Fork(again, "trial", "run", target=RestoreTarget(epoch=4), into="a_third").steps()


def test_a_plan_tells_the_steps_and_changes_nothing(world: SimulatedProject) -> None:
    before = original(world)
    fork = Fork(world, CLICKS, "", into="trial", target=AT_5)
    steps, point = fork.plan(), fork.point
    assert [type(step).__name__ for step in steps] == STEPS
    assert point.epoch == 5
    assert not Path(world.config.home / "tables" / "trial").exists()
    assert original(world) == before


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"into": CLICKS}, "there is a stream clicks already|would write to"),
        ({"into": "Not A Name"}, "the fork Not A Name of clicks cannot be declared: name"),
        ({"output": "PATH OF THE ORIGINAL"}, "as the original does"),
    ],
)
def test_what_cannot_be_forked_is_told(
    world: SimulatedProject, options: dict[str, str], told: str
) -> None:
    if "output" in options:
        options = {"output": world.config.table_path(CLICKS)}
    with pytest.raises(PermanentError, match=told):
        forked(world, **options)


def test_output_that_is_not_there_is_told(world: SimulatedProject) -> None:
    Path(world.config.table_path(CLICKS)).rename(world.config.root / "moved")
    with pytest.raises(PermanentError, match=r"there is no table .*tables/clicks") as refused:
        forked(world)
    assert "put the table back if it was moved" in refused.value.hint


def test_the_name_of_a_stream_that_once_was_is_taken(world: SimulatedProject) -> None:
    decide_epoch(world, 0, name="trial")
    with pytest.raises(PermanentError, match="there are epochs of a stream trial already"):
        forked(world)


def test_snapshots_of_a_stream_that_once_was_are_not_taken_for_the_forks(
    world: SimulatedProject,
) -> None:
    manifest = world.vault(CLICKS).manifest("000000000006-1-r1")
    world.vault("trial").adopt(manifest, world.vault(CLICKS))
    with pytest.raises(PermanentError, match="there are snapshots of a stream trial already"):
        forked(world)


def test_a_sink_of_ones_own_is_not_forked(tmp_path: Path) -> None:
    sink = {"kind": "callable", "function": "json:dumps"}
    objective = {"recovery_time": "10s", "guarantee": "rollback"}
    with (
        simulated_projects(tmp_path / "other", sink=sink, objective=objective).open() as world,
        pytest.raises(PermanentError, match="its sink would write where the original writes"),
    ):
        forked(world)
