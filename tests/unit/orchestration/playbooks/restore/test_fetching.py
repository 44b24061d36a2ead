"""Restores whose snapshot comes from elsewhere: whatever of it is not whole here is fetched."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.ft_policies.errors import PermanentError
from holdfast.orchestration.playbooks.restore.point import RestoreTarget
from holdfast.orchestration.playbooks.restore.restore import Restore
from tests.builders.recorded_stream import a_restorable_stream, entries, output, ship, snapshots
from tests.builders.streams import CLICKS, PATIENT
from tests.fakes.object_store import InMemoryObjectStore
from tests.fakes.projects import SimulatedProject, simulated_projects

STEPS = ["BeginHistory", "MarkSnapshots", "RollOutput", "EndRestore"]
ELSEWHERE = "copies"
FROM_THERE = RestoreTarget(epoch=5, place=ELSEWHERE)
SNAPSHOT = "000000000004-1-r1"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[SimulatedProject]:
    """A stream with a past, and a copy of its snapshots elsewhere."""
    with simulated_projects(tmp_path, supervision=PATIENT).open() as project:
        a_restorable_stream(project)
        project.elsewhere[ELSEWHERE] = InMemoryObjectStore()
        ship(project.vault_elsewhere(ELSEWHERE, CLICKS), project.config.home / "copies")
        yield project


def restored(project: SimulatedProject, asked: RestoreTarget = FROM_THERE) -> list[str]:
    return [step.name for step in Restore(project, CLICKS, "run", target=asked, why="lost").steps()]


def lose_packs(project: SimulatedProject) -> None:
    """The manifests are there still, what they name is not."""
    packs = [key for key in project.objects.objects if key.startswith("clicks/packs/")]
    project.objects.delete(packs)


def require_whole(project: SimulatedProject) -> None:
    assert project.vault(CLICKS).verify(SNAPSHOT) == []
    assert output(project) == entries(project) == [0, 1, 2, 3, 4, 5]


def test_a_snapshot_comes_from_another_bucket(project: SimulatedProject) -> None:
    project.objects.objects.clear()
    assert restored(project) == ["FetchSnapshot", *STEPS]
    assert snapshots(project) == [4]
    require_whole(project)
    newest = project.store.snapshots.newest(CLICKS)
    assert newest is not None
    assert newest.id == SNAPSHOT


def test_a_bucket_without_a_snapshot_is_reported(project: SimulatedProject) -> None:
    project.elsewhere[ELSEWHERE] = InMemoryObjectStore()
    with pytest.raises(PermanentError, match="no snapshot of clicks up to epoch 5 in copies"):
        restored(project)


def test_one_that_is_whole_here_is_not_fetched(project: SimulatedProject) -> None:
    assert restored(project) == STEPS


def test_one_that_is_listed_here_but_has_lost_its_packs_is_fetched(
    project: SimulatedProject,
) -> None:
    lose_packs(project)
    planned = [step.name for step in Restore(project, CLICKS, "plan", target=FROM_THERE).plan()]
    assert planned == restored(project) == ["FetchSnapshot", *STEPS]
    require_whole(project)


def test_one_whose_manifest_cannot_be_read_is_fetched(project: SimulatedProject) -> None:
    project.objects.put(project.vault(CLICKS).manifest_key(SNAPSHOT), b"not a manifest")
    assert restored(project) == ["FetchSnapshot", *STEPS]
    require_whole(project)


@pytest.mark.parametrize("asked", [FROM_THERE, RestoreTarget(place=ELSEWHERE)])
def test_one_that_is_half_done_is_finished_with_a_snapshot_from_elsewhere(
    project: SimulatedProject, asked: RestoreTarget
) -> None:
    next(Restore(project, CLICKS, "run", target=RestoreTarget(epoch=5), why="lost").steps())
    lose_packs(project)
    planned = [step.name for step in Restore(project, CLICKS, "plan", target=asked).plan()]
    assert planned == restored(project, asked) == ["FetchSnapshot", *STEPS[1:]]
    require_whole(project)


def test_one_that_is_done_is_done_again_with_a_snapshot_from_elsewhere(
    project: SimulatedProject,
) -> None:
    restored(project, RestoreTarget(epoch=5))
    lose_packs(project)
    assert restored(project) == ["FetchSnapshot", *STEPS]
    require_whole(project)
    assert restored(project) == [], "it is here now"
