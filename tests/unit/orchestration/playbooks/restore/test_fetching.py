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
ELSEWHERE = "s3://elsewhere/copies"
FROM_THERE = RestoreTarget(epoch=5, place=ELSEWHERE)
SNAPSHOT = "000000000004-1-r1"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimulatedProject]:
    """A stream with a past, and a copy of its snapshots elsewhere."""
    with simulated_projects(tmp_path, supervision=PATIENT).open() as world:
        a_restorable_stream(world)
        world.elsewhere[ELSEWHERE] = InMemoryObjectStore()
        ship(world.vault_elsewhere(ELSEWHERE, CLICKS), world.config.home / "copies")
        yield world


def restored(world: SimulatedProject, asked: RestoreTarget = FROM_THERE) -> list[str]:
    return [one.name for one in Restore(world, CLICKS, "run", target=asked, why="lost").steps()]


def lose_packs(world: SimulatedProject) -> None:
    """The manifests are there still, what they name is not."""
    packs = [key for key in world.objects.objects if key.startswith("clicks/packs/")]
    world.objects.delete(packs)


def require_whole(world: SimulatedProject) -> None:
    assert world.vault(CLICKS).verify(SNAPSHOT) == []
    assert output(world) == entries(world) == [0, 1, 2, 3, 4, 5]


def test_a_snapshot_comes_from_another_bucket(world: SimulatedProject) -> None:
    world.objects.objects.clear()
    assert restored(world) == ["FetchSnapshot", *STEPS]
    assert snapshots(world) == [4]
    require_whole(world)
    newest = world.store.snapshots.newest(CLICKS)
    assert newest is not None
    assert newest.id == SNAPSHOT


def test_a_bucket_without_a_snapshot_is_told(world: SimulatedProject) -> None:
    world.elsewhere[ELSEWHERE] = InMemoryObjectStore()
    with pytest.raises(PermanentError, match="no snapshot of clicks up to epoch 5 in s3://"):
        restored(world)


def test_one_that_is_whole_here_is_not_fetched(world: SimulatedProject) -> None:
    assert restored(world) == STEPS


def test_one_that_is_listed_here_but_has_lost_its_packs_is_fetched(world: SimulatedProject) -> None:
    lose_packs(world)
    planned = [step.name for step in Restore(world, CLICKS, "plan", target=FROM_THERE).plan()]
    assert planned == restored(world) == ["FetchSnapshot", *STEPS]
    require_whole(world)


def test_one_whose_manifest_cannot_be_read_is_fetched(world: SimulatedProject) -> None:
    world.objects.put(world.vault(CLICKS).manifest_key(SNAPSHOT), b"not a manifest")
    assert restored(world) == ["FetchSnapshot", *STEPS]
    require_whole(world)


@pytest.mark.parametrize("asked", [FROM_THERE, RestoreTarget(place=ELSEWHERE)])
def test_one_that_is_half_done_is_finished_with_a_snapshot_from_elsewhere(
    world: SimulatedProject, asked: RestoreTarget
) -> None:
    next(Restore(world, CLICKS, "run", target=RestoreTarget(epoch=5), why="lost").steps())
    lose_packs(world)
    planned = [step.name for step in Restore(world, CLICKS, "plan", target=asked).plan()]
    assert planned == restored(world, asked) == ["FetchSnapshot", *STEPS[1:]]
    require_whole(world)


def test_one_that_is_done_is_done_again_with_a_snapshot_from_elsewhere(
    world: SimulatedProject,
) -> None:
    restored(world, RestoreTarget(epoch=5))
    lose_packs(world)
    assert restored(world) == ["FetchSnapshot", *STEPS]
    require_whole(world)
    assert restored(world) == [], "it is here now"
