"""What a start would do, planned before it is done, is what it then does."""

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
def projects(tmp_path: Path) -> SimulatedProjects:
    return simulated_projects(tmp_path, supervision=PATIENT, tier="deployed")


def planned(project: Project) -> list[str]:
    return [step.name for step in Start(project, CLICKS, "plan").plan()]


def a_migration(project: Project) -> int:
    row = project.store.streams.get(CLICKS)
    assert row is not None
    begun = project.store.migrations.begin(
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


def stopped(project: Project) -> None:
    project.store.replicas.end("p", ReplicaState.STOPPED, "asked to stop", by=EndedBy.REPLICA)
    project.store.streams.desire(CLICKS, DesiredState.STOPPED)


FROM_NOTHING = ["Launch", "AwaitCatchUp", "LaunchSecondary", "TurnSwitch"]


def test_a_stream_that_was_stopped_is_launched_with_its_secondary(
    projects: SimulatedProjects,
) -> None:
    with projects.open() as project:
        a_wanted_stream(project)
        a_primary(project, "p")
        stopped(project)
        assert planned(project) == FROM_NOTHING
        row = project.store.streams.get(CLICKS)
    assert row is not None
    assert row.desired is DesiredState.STOPPED
    assert "ensure" not in projects.objects.calls


def test_a_dead_primary_is_fenced_first_though_the_stream_is_not_wanted(
    projects: SimulatedProjects,
) -> None:
    with projects.open() as project:
        a_dead_primary(project)
        project.store.streams.desire(CLICKS, DesiredState.STOPPED)
        assert planned(project) == ["Fence", *FROM_NOTHING]


def test_a_start_by_hand_is_a_new_beginning_after_failures_in_a_row(
    projects: SimulatedProjects,
) -> None:
    with projects.open() as project:
        a_wanted_stream(project)
        for number in range(3):
            a_primary(project, f"p{number}")
            project.store.replicas.end(
                f"p{number}", ReplicaState.FAILED, "each time", by=EndedBy.REPLICA
            )
        assert planned(project) == FROM_NOTHING


def test_a_migration_that_was_under_way_or_done_does_not_show(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        a_wanted_stream(project)
        a_primary(project, "p")
        number = a_migration(project)
        project.store.migrations.finish(CLICKS, number, "done")
        a_migration(project)
        stopped(project)
        assert planned(project) == FROM_NOTHING


def test_the_tier_is_the_one_that_is_declared_now(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        a_wanted_stream(project)
        a_primary(project, "p")
        stopped(project)
    file = projects.root / "configs" / "streams" / f"{CLICKS}.yaml"
    file.write_text(stream_yaml(name=CLICKS, tier="passive_replication"), encoding="utf-8")
    with projects.open() as project:
        assert planned(project) == ["Launch", "AwaitCatchUp"]


def test_a_pinned_tier_holds_after_the_controller_chose_another(tmp_path: Path) -> None:
    projects = simulated_projects(tmp_path, controller={"mode": "auto"})
    with projects.open() as project:
        a_wanted_stream(project)
        project.store.tiers.desire(CLICKS, "active_replication", why="chosen", run="review")
        project.store.streams.desire(CLICKS, DesiredState.STOPPED)
    file = projects.root / "configs" / "streams" / f"{CLICKS}.yaml"
    file.write_text(stream_yaml(name=CLICKS, tier="passive_replication"), encoding="utf-8")
    with projects.open() as project:
        assert planned(project) == ["Launch", "AwaitCatchUp"]


def test_what_is_half_restored_is_refused_as_it_would_be(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        declare(project.config, project.store, CLICKS)
        commit_epochs(project, 3)
        request = project.store.restores.request(
            CLICKS, epoch=1, snapshot=None, why="a test", run="run"
        )
        project.store.restores.begin(request)
        with pytest.raises(PermanentError, match="half done"):
            Start(project, CLICKS, "plan").plan()


def test_the_plan_is_what_is_then_done(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        plan = planned(project)
        with simulated_drivers(project) as drivers:
            Start(project, CLICKS, "run").steps()
            level_at_once = [step for step in plan if step != "AwaitCatchUp"]
            assert run_recovery(drivers) == level_at_once
