"""What a start would do, told before it is done, is what it then does."""

from pathlib import Path

import pytest

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.playbooks.recover.migration import Protocol
from holdfast.ft_policies.tiers import Tier
from holdfast.orchestration.playbooks.launch import declare
from holdfast.orchestration.playbooks.recover import Start
from holdfast.resources.control_store.records import DesiredState, EndedBy, ReplicaState
from holdfast.resources.project import Project
from tests.builders.playbooks import run_recovery
from tests.builders.projects import stream_yaml
from tests.builders.streams import (
    CLICKS,
    PATIENT,
    a_dead_primary,
    a_primary,
    a_wanted_stream,
    commit_epochs,
)
from tests.fakes.drivers import simulated_drivers
from tests.fakes.projects import SimulatedProjects, simulated_projects


@pytest.fixture
def worlds(tmp_path: Path) -> SimulatedProjects:
    return simulated_projects(tmp_path, supervision=PATIENT, tier="deployed")


def planned(world: Project) -> list[str]:
    return [step.name for step in Start(world, CLICKS, "plan").plan()]


def a_migration(world: Project) -> int:
    row = world.store.streams.get(CLICKS)
    assert row is not None
    begun = world.store.migrations.begin(
        stream=CLICKS,
        target=row.declaration,
        tier=Tier.DEPLOYED,
        protocol=Protocol.REPLAY,
        within_seconds=300.0,
        may_differ=False,
        why="a test",
        run="run",
    )
    assert begun is not None
    return begun.rollout


def stopped(world: Project) -> None:
    world.store.replicas.end("p", ReplicaState.STOPPED, "told to stop", by=EndedBy.REPLICA)
    world.store.streams.desire(CLICKS, DesiredState.STOPPED)


FROM_NOTHING = ["Launch", "AwaitCatchUp", "LaunchSecondary", "TurnSwitch"]


def test_a_stream_that_was_stopped_is_launched_with_its_secondary(
    worlds: SimulatedProjects,
) -> None:
    with worlds.open() as world:
        a_wanted_stream(world)
        a_primary(world, "p")
        stopped(world)
        assert planned(world) == FROM_NOTHING
        row = world.store.streams.get(CLICKS)
    assert row is not None
    assert row.desired is DesiredState.STOPPED
    assert "ensure" not in worlds.objects.calls


def test_a_dead_primary_is_fenced_first_though_nobody_wants_the_stream(
    worlds: SimulatedProjects,
) -> None:
    with worlds.open() as world:
        a_dead_primary(world)
        world.store.streams.desire(CLICKS, DesiredState.STOPPED)
        assert planned(world) == ["Fence", *FROM_NOTHING]


def test_a_start_by_hand_is_a_new_beginning_after_failures_in_a_row(
    worlds: SimulatedProjects,
) -> None:
    with worlds.open() as world:
        a_wanted_stream(world)
        for number in range(3):
            a_primary(world, f"p{number}")
            world.store.replicas.end(
                f"p{number}", ReplicaState.FAILED, "each time", by=EndedBy.REPLICA
            )
        assert planned(world) == FROM_NOTHING


def test_a_migration_that_was_under_way_or_done_does_not_show(worlds: SimulatedProjects) -> None:
    with worlds.open() as world:
        a_wanted_stream(world)
        a_primary(world, "p")
        number = a_migration(world)
        world.store.migrations.finish(CLICKS, number, "done")
        a_migration(world)
        stopped(world)
        assert planned(world) == FROM_NOTHING


def test_the_tier_is_the_one_that_is_declared_now(worlds: SimulatedProjects) -> None:
    with worlds.open() as world:
        a_wanted_stream(world)
        a_primary(world, "p")
        stopped(world)
    file = worlds.root / "configs" / "streams" / f"{CLICKS}.yaml"
    file.write_text(stream_yaml(name=CLICKS, tier="passive_replication"), encoding="utf-8")
    with worlds.open() as world:
        assert planned(world) == ["Launch", "AwaitCatchUp"]


def test_what_is_half_restored_is_refused_as_it_would_be(worlds: SimulatedProjects) -> None:
    with worlds.open() as world:
        declare(world.config, world.store, CLICKS)
        commit_epochs(world, 3)
        wish = world.store.restores.request(CLICKS, epoch=1, snapshot=None, why="a test", run="run")
        world.store.restores.begin(wish)
        with pytest.raises(PermanentError, match="half done"):
            Start(world, CLICKS, "plan").plan()


def test_the_plan_is_what_is_then_done(
    worlds: SimulatedProjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    with worlds.open() as world:
        plan = planned(world)
        with simulated_drivers(world, monkeypatch) as drivers:
            Start(world, CLICKS, "run").steps()
            level_at_once = [step for step in plan if step != "AwaitCatchUp"]
            assert run_recovery(drivers) == level_at_once
