"""What is declared may change between two lives of a stream, never under a live replica."""

from pathlib import Path

import pytest

from holdfast.orchestration.playbooks.launch import launch_primary
from holdfast.orchestration.playbooks.recover import Start
from holdfast.resources.control_store.records import EndedBy, ReplicaState
from holdfast.resources.project import Project
from tests.builders.projects import stream_yaml
from tests.builders.streams import CLICKS, a_primary, a_secondary, a_wanted_stream
from tests.fakes.drivers import simulated_drivers
from tests.fakes.projects import SimulatedProjects, simulated_projects


@pytest.fixture
def worlds(tmp_path: Path) -> SimulatedProjects:
    worlds = simulated_projects(tmp_path)
    with worlds.open() as world:
        a_wanted_stream(world)
    return worlds


def written_anew(worlds: SimulatedProjects) -> None:
    """People change the stream's file: another tier."""
    file = worlds.root / "configs" / "streams" / f"{CLICKS}.yaml"
    file.write_text(stream_yaml(name=CLICKS, tier="deployed"), encoding="utf-8")


def declared_tier(world: Project) -> str:
    row = world.store.streams.get(CLICKS)
    assert row is not None
    return row.declared_tier


def test_a_start_changes_nothing_under_a_secondary_that_may_take_over(
    worlds: SimulatedProjects,
) -> None:
    with worlds.open() as world:
        a_secondary(world, "s1")
    written_anew(worlds)
    with worlds.open() as world:
        Start(world, CLICKS, "run").steps()
        assert declared_tier(world) == "passive_replication"
        world.store.replicas.end("s1", ReplicaState.DEAD, "gone", by=EndedBy.REPLICA)
        Start(world, CLICKS, "run").steps()
        assert declared_tier(world) == "deployed"


def test_who_finds_the_slot_taken_declares_nothing(worlds: SimulatedProjects) -> None:
    with worlds.open() as world:
        a_primary(world, "p1")
    written_anew(worlds)
    with worlds.open() as world:
        assert launch_primary(world.config, world.store, CLICKS) is None
        assert declared_tier(world) == "passive_replication"


def test_a_new_primary_goes_by_what_the_stream_was_started_with(
    worlds: SimulatedProjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    written_anew(worlds)
    with worlds.open() as world, simulated_drivers(world, monkeypatch):
        assert launch_primary(world.config, world.store, CLICKS) is not None
        assert declared_tier(world) == "passive_replication"
