"""The recovery sensor of a stream with a secondary: a tier that is not covered is an incident too."""

from dataclasses import replace
from pathlib import Path

from holdfast.ft_policies.playbooks.recover.steps import LaunchSecondary
from holdfast.ft_policies.tiers import OFF, Switches, Tier
from holdfast.observation.status import observe_stream
from holdfast.orchestration.incidents import calls_for_recovery
from holdfast.orchestration.playbooks.base import JournalWriter, StepResult
from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.records import (
    EndedBy,
    IncidentState,
    IncidentSubject,
    Phase,
    ReplicaState,
)
from holdfast.resources.control_store.sample_names import SampleName
from tests.builders.control_rows import a_recovery, a_waiting_recovery, lost_primary, lost_secondary
from tests.builders.recovery_sensor import incidents, requested, standby_projects, tick
from tests.builders.streams import CLICKS, STANDS_BY, a_heartbeat, a_secondary
from tests.fakes.projects import projects_with_paused_secondary


def test_a_missing_secondary_is_an_incident_of_the_same_kind(tmp_path: Path) -> None:
    projects = standby_projects(tmp_path)
    keys = {key for _ in range(3) for key in requested(projects)}
    [incident] = incidents(projects)
    assert keys == {f"{incident.id}-0-0"}
    assert incident.kind == IncidentKind.RECOVERY
    assert incident.key == f"{CLICKS}/p1/secondary-never/1"
    assert (incident.subject, incident.replica) == (IncidentSubject.SECONDARY, None)
    [request] = tick(projects).run_requests or []
    assert request.tags["holdfast/cause"] == "secondary_missing"
    with projects.open() as project:
        assert project.store.samples.series(CLICKS, SampleName.DETECT_SECONDS) == []


def test_a_dead_secondary_is_an_incident_until_the_tier_is_covered_again(tmp_path: Path) -> None:
    projects = standby_projects(tmp_path)
    with projects.open() as project:
        a_secondary(project, "s1", alive=False)
    assert len(requested(projects)) == 1
    [incident] = incidents(projects)
    assert incident.key == f"{CLICKS}/p1/secondary-s1/1"
    assert incident.detail["cause"] == "secondary_dead"
    with projects.open() as project:
        project.store.replicas.end("s1", ReplicaState.FENCED, "dead", by=EndedBy.REPLICA)
        a_secondary(project, "s2", observed=Switches(deploy=True))
    assert len(requested(projects)) == 1, "deployed is less than active_standby"
    with projects.open() as project:
        a_heartbeat(project, "s2", epoch=1, observed=STANDS_BY)
        project.store.replicas.desire("s2", STANDS_BY)
    assert requested(projects) == []
    assert incidents(projects)[0].state is IncidentState.CLOSED


def test_after_a_failover_the_incident_is_open_until_redundancy_is_restored(
    tmp_path: Path,
) -> None:
    projects = standby_projects(tmp_path)
    with projects.open() as project:
        a_secondary(project, "s1")
        project.store.takeovers.take(
            CLICKS, "s1", primary="p1", observed=None, ttl_seconds=3.0, reason="gone"
        )
        a_heartbeat(project, "s1", epoch=2)
        incident = a_recovery(project.store, lost_primary("p1", stream=CLICKS), health="dead")
    assert requested(projects) == [f"{incident.id}-0-0"]
    with projects.open() as project:
        a_secondary(project, "s2")
    assert requested(projects) == []
    [closed] = incidents(projects)
    assert closed.state is IncidentState.CLOSED


def test_an_incident_ends_when_another_tier_is_wanted(tmp_path: Path) -> None:
    projects = standby_projects(tmp_path)
    assert len(requested(projects)) == 1
    with projects.open() as project:
        project.store.tiers.desire(CLICKS, Tier.PASSIVE_REPLICATION, why="test", run="")
    assert requested(projects) == []
    assert incidents(projects)[0].state is IncidentState.CLOSED


def test_a_secondary_that_is_starting_or_a_tier_that_is_covered_is_left_alone(
    tmp_path: Path,
) -> None:
    projects = standby_projects(tmp_path)
    with projects.open() as project:
        a_secondary(project, "s1", observed=OFF, desired=Switches(deploy=True))
    assert requested(projects) == []
    with projects.open() as project:
        project.store.replicas.end("s1", ReplicaState.STOPPED, "", by=EndedBy.REPLICA)
        a_secondary(project, "s2")
    assert requested(projects) == []
    assert incidents(projects) == []


def test_a_change_that_a_run_works_on_is_no_incident_until_the_run_falls_silent(
    tmp_path: Path,
) -> None:
    projects = standby_projects(tmp_path, tier="passive_replication")
    with projects.open() as project:
        project.store.tiers.desire(CLICKS, Tier.DEPLOYED, why="test", run="run-1")
        assert requested(projects) == [], "it was wanted just now"
        status = observe_stream(project, CLICKS)
        assert calls_for_recovery(project, replace(status, at=status.at + 6.0))
        project.store.journal.write(
            stream=CLICKS,
            playbook="switch",
            run="run-1",
            step="LaunchSecondary",
            phase=Phase.INTENT,
        )
        supervision = project.config.stream(CLICKS).supervision
        patience = supervision.start_within + supervision.stuck_after
        assert not calls_for_recovery(project, replace(status, at=status.at + patience))
        assert calls_for_recovery(project, replace(status, at=status.at + patience + 10.0))


def test_a_change_whose_performer_is_gone_is_gone_on_with_at_once(tmp_path: Path) -> None:
    projects = standby_projects(tmp_path, tier="passive_replication")
    with projects.open() as project:
        project.store.tiers.desire(CLICKS, Tier.DEPLOYED, why="test", run="run-1")
        journal = JournalWriter(project=project, stream=CLICKS, playbook="switch", run="run-1")
        status = observe_stream(project, CLICKS)
        later, calls = replace(status, at=status.at + 6.0), list[bool]()

        def calls_in_the_middle(step: LaunchSecondary) -> StepResult:
            is_due = calls_for_recovery(project, later)
            [line] = project.store.journal.of(CLICKS, limit=1)
            gone = {**line.detail["performer"], "started_at": 0.0}
            journal.write(step, Phase.INTENT, performer=gone)
            calls.extend([is_due, calls_for_recovery(project, later)])
            return StepResult()

        journal.perform(LaunchSecondary(), calls_in_the_middle)
    assert calls == [False, True], "while the performer is at work, and when it is gone"


def test_a_tier_is_reached_when_the_paused_secondary_goes_on(tmp_path: Path) -> None:
    projects = projects_with_paused_secondary(tmp_path, "s1")
    with projects.open() as project:
        a_waiting_recovery(project.store, lost_secondary("s0", stream=CLICKS))
    assert requested(projects) == []
    [incident] = incidents(projects)
    assert "s1 has paused: the host is busy, covers passive_standby_cold" in incident.outcome
    with projects.open() as project:
        assert project.store.tiers.history(CLICKS)[-1].reached_at is None
        a_heartbeat(project, "s1", epoch=2, observed=STANDS_BY)
    assert requested(projects) == []
    with projects.open() as project:
        assert project.store.tiers.history(CLICKS)[-1].reached_at is not None
