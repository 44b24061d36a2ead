"""A stop that is cut short is finished by the next run; one that goes on is left alone."""

from dataclasses import replace
from pathlib import Path

from holdfast.ft_policies.health import Health
from holdfast.ft_policies.tiers import PRIMARY
from holdfast.observation.status import observe_stream
from holdfast.orchestration.incidents import calls_for_recovery
from holdfast.orchestration.outcomes import outcome_of
from holdfast.orchestration.playbooks.base import StepSkipped
from holdfast.orchestration.playbooks.lifecycle import Stop
from holdfast.resources.control_store.records import (
    DesiredState,
    EndedBy,
    IncidentState,
    Phase,
    ReplicaState,
)
from holdfast.resources.project import Project
from tests.builders.playbooks import a_running_project, recovery_steps, replica_of, run_recovery
from tests.builders.recovery_sensor import incidents, requested, standby_projects, tick
from tests.builders.streams import CLICKS, a_primary, a_secondary
from tests.fakes.drivers import simulated_drivers


def calls_after(project: Project, seconds: float) -> bool:
    status = observe_stream(project, CLICKS)
    return calls_for_recovery(project, replace(status, at=status.at + seconds))


def a_stop(project: Project, phase: Phase) -> None:
    """An operator has asked the stream to stop, and the stop is at the first replica."""
    project.store.streams.desire(CLICKS, DesiredState.STOPPED)
    project.store.journal.write(
        stream=CLICKS, playbook="stop", run="run", step="AwaitExit", phase=phase
    )


def test_a_stop_leaves_a_stream_alone_that_is_wanted_again(tmp_path: Path) -> None:
    with a_running_project(tmp_path) as project:
        steps = Stop(project, CLICKS, "run").steps()
        assert next(steps).name == "RequestExit"
        project.store.replicas.end("p", ReplicaState.STOPPED, "asked to stop", by=EndedBy.REPLICA)
        project.store.streams.desire(CLICKS, DesiredState.RUNNING)
        a_primary(project, "p2")
        assert list(steps) == []
        assert replica_of(project, "p2").desired == PRIMARY


def test_a_primary_that_is_wanted_again_is_not_asked_to_leave(tmp_path: Path) -> None:
    with a_running_project(tmp_path) as project:
        project.store.streams.desire(CLICKS, DesiredState.STOPPED)

        def want_it_again() -> None:
            if project.store.journal.of(CLICKS):
                project.store.streams.desire(CLICKS, DesiredState.RUNNING)

        done = list(recovery_steps(project, want_it_again))
        assert [(step.name, step.result) for step in done] == [("AwaitPrimaryExit", StepSkipped())]
        assert replica_of(project, "p").desired == PRIMARY


def test_replicas_that_are_neither_wanted_nor_asked_to_leave_are_stopped(tmp_path: Path) -> None:
    projects = standby_projects(tmp_path)
    with projects.open() as project:
        a_secondary(project, "s1")
        project.store.streams.desire(CLICKS, DesiredState.STOPPED)
    assert requested(projects) == [], "it was asked for just now"
    projects.timing_changes["between_steps_seconds"] = 0.0
    [request] = tick(projects).run_requests or []
    assert request.tags["holdfast/cause"] == "unwanted"
    [incident] = incidents(projects)
    assert incident.key == f"{CLICKS}/p1/unwanted/1"
    with projects.open() as project, simulated_drivers(project) as drivers:
        assert run_recovery(drivers) == ["AwaitPrimaryExit", "AwaitSecondaryExit"]
        assert observe_stream(project, CLICKS).verdict.health is Health.STOPPED
        outcome = outcome_of(project, incident)
    assert outcome.sentence.startswith("stopped after")
    assert outcome.recovery_seconds is None
    assert requested(projects) == []
    assert incidents(projects)[0].state is IncidentState.CLOSED


def test_a_secondary_alone_is_seen_off_too(tmp_path: Path) -> None:
    projects = standby_projects(tmp_path)
    with projects.open() as project:
        a_secondary(project, "s1")
        project.store.replicas.end("p1", ReplicaState.STOPPED, "asked to stop", by=EndedBy.REPLICA)
        project.store.streams.desire(CLICKS, DesiredState.STOPPED)
        assert calls_after(project, 6.0)


def test_a_stop_that_waits_for_the_secondary_is_not_disturbed(tmp_path: Path) -> None:
    projects = standby_projects(tmp_path)
    with projects.open() as project:
        a_secondary(project, "s1")
        a_stop(project, Phase.INTENT)
        gone_within = project.timings(CLICKS).gone_within_seconds
        assert not calls_after(project, gone_within)
        assert calls_after(project, gone_within + 10.0)


def test_who_interrupts_his_stop_has_it_finished_for_him(tmp_path: Path) -> None:
    projects = standby_projects(tmp_path)
    with projects.open() as project:
        a_stop(project, Phase.FAILED)
        assert calls_after(project, 6.0)


def test_a_process_that_is_gone_need_not_be_asked(tmp_path: Path) -> None:
    projects = standby_projects(tmp_path)
    with projects.open() as project:
        project.store.replicas.record_process("p1", pid=1, pid_started_at=1.0)
        project.store.streams.desire(CLICKS, DesiredState.STOPPED)
        assert not calls_after(project, 6.0)
