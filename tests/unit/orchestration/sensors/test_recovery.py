"""The recovery sensor: one run per incident, however often and by whomever it is evaluated."""

from pathlib import Path

import dagster as dg
import pytest

from holdfast.ft_policies.errors import TransientError
from holdfast.ft_policies.tiers import OFF, Tier
from holdfast.orchestration.incidents import open_recovery
from holdfast.orchestration.sensors.recovery import (
    StoreOutage,
    object_store_sensor,
    recovery_sensor,
)
from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.records import (
    DesiredState,
    EndedBy,
    IncidentState,
    ReplicaState,
)
from holdfast.resources.control_store.sample_names import SampleName
from tests.builders.projects import a_project, stream_yaml
from tests.builders.recovery_sensor import incidents, requested, tick
from tests.builders.streams import CLICKS, a_dead_primary, a_primary, a_wanted_stream
from tests.fakes.clocks import SteppedClock
from tests.fakes.projects import SimulatedProjects, simulated_projects


@pytest.fixture
def projects(tmp_path: Path) -> SimulatedProjects:
    return simulated_projects(tmp_path)


def test_a_dead_driver_gives_one_run_over_many_ticks_and_daemons(
    projects: SimulatedProjects,
) -> None:
    with projects.open() as project:
        a_dead_primary(project)
    keys = {key for _ in range(10) for key in requested(projects)}
    [incident] = incidents(projects)
    assert keys == {f"{incident.id}-0-0"}
    assert incident.kind == IncidentKind.RECOVERY
    assert incident.detail["health"] == "dead"
    assert incident.detail["t_detect_seconds"] >= 0
    with projects.open() as project:
        assert len(project.store.samples.series(CLICKS, SampleName.DETECT_SECONDS)) == 1


def test_the_request_names_the_job_the_stream_and_the_incident(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        a_dead_primary(project)
    [request] = tick(projects).run_requests or []
    [incident] = incidents(projects)
    assert recovery_sensor.job_name == "recover_stream"
    assert request.run_config["ops"]["recover"]["config"] == {
        "stream": CLICKS,
        "incident": incident.id,
        "dry_run": False,
    }
    assert request.tags["holdfast/stream"] == CLICKS
    assert request.tags["holdfast/cause"] == "dead"


def test_each_failed_stream_gets_a_run_of_its_own(tmp_path: Path) -> None:
    projects = simulated_projects(tmp_path, "alpha", "beta", "gamma")
    with projects.open() as project:
        a_dead_primary(project, "a1", "alpha")
        a_dead_primary(project, "b1", "beta")
    streams = [request.tags["holdfast/stream"] for request in tick(projects).run_requests or []]
    assert streams == ["alpha", "beta"]


def test_the_stream_with_the_tightest_objective_is_recovered_first(tmp_path: Path) -> None:
    tight = stream_yaml(name="beta", objective={"recovery_time": "2s"})
    projects = SimulatedProjects(a_project(tmp_path, alpha=stream_yaml(name="alpha"), beta=tight))
    with projects.open() as project:
        a_dead_primary(project, "a1", "alpha")
        a_dead_primary(project, "b1", "beta")
    first, second = tick(projects).run_requests or []
    assert first.tags["holdfast/stream"] == "beta"
    assert int(first.tags["dagster/priority"]) > int(second.tags["dagster/priority"]) >= 100


def test_streams_that_are_well_or_not_wanted_are_left_alone(
    projects: SimulatedProjects,
) -> None:
    assert requested(projects) == []
    with projects.open() as project:
        a_dead_primary(project)
        project.store.streams.desire(CLICKS, DesiredState.STOPPED)
    assert requested(projects) == []
    assert incidents(projects) == []


def test_a_stream_that_is_just_being_started_is_no_incident(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        a_wanted_stream(project)
    assert requested(projects) == []


def test_a_replica_that_failed_by_itself_is_one(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        a_wanted_stream(project)
        a_primary(project, "r1")
        project.store.replicas.end("r1", ReplicaState.FAILED, "no luck", by=EndedBy.REPLICA)
    assert len(requested(projects)) == 1
    assert incidents(projects)[0].detail["health"] == "missing"


def test_a_replica_that_fails_just_after_a_switch_is_one_too(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        a_wanted_stream(project)
        a_primary(project, "r1")
        project.store.tiers.desire(CLICKS, Tier.DEPLOYED, why="test", run="")
        project.store.replicas.end("r1", ReplicaState.FAILED, "no luck", by=EndedBy.REPLICA)
    assert len(requested(projects)) == 1


def test_one_that_was_asked_to_leave_makes_room_for_who_starts_the_stream_again(
    projects: SimulatedProjects,
) -> None:
    with projects.open() as project:
        a_wanted_stream(project)
        a_primary(project, "r1")
        project.store.replicas.desire("r1", OFF)
        project.store.streams.desire(CLICKS, DesiredState.RUNNING)
        project.store.replicas.end("r1", ReplicaState.STOPPED, "asked to stop", by=EndedBy.REPLICA)
    assert requested(projects) == []


def test_while_a_run_has_the_claim_no_other_is_asked_for(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        a_dead_primary(project)
        requested(projects)
        incident = open_recovery(project, CLICKS)
        assert incident is not None
        project.store.incidents.claim(incident.id, "run-1", 60.0)
    assert requested(projects) == []


def test_a_run_that_died_is_followed_by_another(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        a_dead_primary(project)
        first = requested(projects)
        incident = open_recovery(project, CLICKS)
        assert incident is not None
        project.store.incidents.claim(incident.id, "run-1", 0.0)
    second = requested(projects)
    assert second == requested(projects) == [f"{incident.id}-1-0"]
    assert first != second


def test_a_stream_between_fence_and_launch_is_still_the_same_incident(
    projects: SimulatedProjects,
) -> None:
    with projects.open() as project:
        a_dead_primary(project)
        first = requested(projects)
        project.store.replicas.end("r1", ReplicaState.FENCED, "dead", by=EndedBy.REPLICA)
    assert requested(projects) == first
    assert len(incidents(projects)) == 1


def test_the_same_failure_after_it_was_closed_is_a_new_incident(
    projects: SimulatedProjects,
) -> None:
    with projects.open() as project:
        a_dead_primary(project)
        first = requested(projects)
        project.store.incidents.close(incidents(projects)[0].id, "came back by itself")
    second = requested(projects)
    assert len(second) == 1
    assert second != first
    assert len(incidents(projects)) == 2


def test_an_incident_of_a_stream_that_is_well_again_is_closed(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        a_dead_primary(project)
        requested(projects)
        project.store.replicas.end("r1", ReplicaState.FENCED, "dead", by=EndedBy.REPLICA)
        a_primary(project, "r2")
    assert requested(projects) == []
    [incident] = incidents(projects)
    assert incident.state is IncidentState.CLOSED
    assert "r2 finished an epoch" in incident.outcome


def test_a_control_store_that_is_away_is_a_skipped_tick(projects: SimulatedProjects) -> None:
    projects.failures.append(TransientError("locked", hint="wait"))
    result = tick(projects)
    assert result.skip_reason is not None
    assert result.skip_reason.skip_message == "locked (wait)"


def look_at_the_object_store(
    projects: SimulatedProjects, cursor: str | None = None
) -> tuple[list[str | None], str | None]:
    """The keys of the runs that are requested, and the cursor after it."""
    context = dg.build_sensor_context(cursor=cursor)
    result = object_store_sensor(context, projects=projects)
    assert isinstance(result, dg.SensorResult)
    return [request.run_key for request in result.run_requests or []], result.cursor


def test_a_dead_object_store_is_brought_back_while_streams_are_wanted(
    projects: SimulatedProjects,
) -> None:
    projects.object_store_serves = False
    assert look_at_the_object_store(projects)[0] == [], "it is not needed"
    with projects.open() as project:
        a_wanted_stream(project)
    assert len(look_at_the_object_store(projects)[0]) == 1
    projects.object_store_serves = True
    assert look_at_the_object_store(projects)[0] == []


def test_an_object_store_that_cannot_be_started_gets_ever_fewer_runs() -> None:
    """A failed run each 20 s is 4,300 a day, each with its files and an alert."""
    outage, requested = StoreOutage(), list[int]()
    for second in range(0, 86_400, 5):
        if outage.is_due(second):
            outage = outage.next(second)
            requested.append(second)
    assert requested[:6] == [0, 20, 60, 140, 300, 620]
    assert len(requested) < 6 + 24 * 6


def test_a_restart_of_the_object_store_is_not_requested_again_in_its_pause(
    projects: SimulatedProjects,
) -> None:
    projects.object_store_serves = False
    with projects.open() as project:
        a_wanted_stream(project)
    clock = projects.clock = SteppedClock()
    [first], cursor = look_at_the_object_store(projects)
    clock.step(15.0)
    none, cursor = look_at_the_object_store(projects, cursor)
    clock.step(5.0)
    [second], cursor = look_at_the_object_store(projects, cursor)
    assert none == []
    assert first != second


def test_an_object_store_that_died_again_is_started_at_once(projects: SimulatedProjects) -> None:
    projects.object_store_serves = False
    with projects.open() as project:
        a_wanted_stream(project)
    keys, cursor = look_at_the_object_store(projects)
    assert look_at_the_object_store(projects, cursor)[0] == []
    projects.object_store_serves = True
    cursor = look_at_the_object_store(projects, cursor)[1]
    projects.object_store_serves = False
    assert len(look_at_the_object_store(projects, cursor)[0]) == len(keys) == 1


def test_no_restart_of_the_object_store_waits_for_a_clock_that_was_set_back(
    projects: SimulatedProjects,
) -> None:
    projects.object_store_serves = False
    with projects.open() as project:
        a_wanted_stream(project)
    clock = projects.clock = SteppedClock()
    cursor = look_at_the_object_store(projects)[1]
    clock.step(-3600.0)
    assert len(look_at_the_object_store(projects, cursor)[0]) == 1
