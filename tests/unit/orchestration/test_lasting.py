"""A state that lasts and that no playbook ends gets an incident, which raises an alert and is closed when it is over."""

from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

from holdfast.ft_policies.tiers import SECONDARY, Tier
from holdfast.observation.alerts import find_incident_alerts
from holdfast.orchestration.sensors.observer import Marks, stream_observer
from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.records import DesiredState, ReplicaState, Sample
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.project import Project
from tests.builders.control_rows import a_recovery, lost_primary
from tests.builders.streams import (
    CLICKS,
    PATIENT,
    STANDS_BY,
    a_heartbeat,
    a_primary,
    a_wanted_stream,
)
from tests.fakes.projects import (
    SimulatedProjects,
    projects_with_paused_secondary,
    simulated_projects,
)

MINUTES = 60.0


def tick(projects: SimulatedProjects, cursor: str | None = None) -> str | None:
    result = stream_observer(dg.build_sensor_context(cursor=cursor), projects=projects)
    assert isinstance(result, dg.SensorResult)
    return result.cursor


def later(cursor: str | None, seconds: float) -> str:
    """The cursor of a sensor that has seen the present states for so long."""
    marks = Marks.parse(cursor)
    streams = {
        name: mark.model_copy(update={"lasting_since": mark.lasting_since - seconds})
        for name, mark in marks.streams.items()
    }
    return Marks(streams=streams).model_dump_json()


def alert_texts(project: Project) -> list[str]:
    return [alert.text for alert in find_incident_alerts(project, closed_since=0.0)]


def projects_without_input(root: Path) -> SimulatedProjects:
    projects = simulated_projects(root, supervision=PATIENT)
    with projects.open() as project:
        a_wanted_stream(project)
        a_primary(project, "p1")
        away = Sample(
            stream=CLICKS,
            replica="p1",
            name=SampleName.INPUT_AWAY,
            value=1.0,
            at=project.store.now() + 0.01,
        )
        project.store.samples.write([away])
    return projects


@pytest.mark.parametrize(
    ("build", "kind", "reason"),
    [
        (projects_without_input, IncidentKind.INPUT_AWAY, "p1 is waiting for its input"),
        (
            lambda root: projects_with_paused_secondary(root, "s1"),
            IncidentKind.TIER_NOT_COVERED,
            "the secondary is paused and covers passive_standby_cold",
        ),
    ],
    ids=["input", "tier"],
)
def test_what_lasts_for_long_reaches_an_operator_once(
    tmp_path: Path, build: Callable[[Path], SimulatedProjects], kind: str, reason: str
) -> None:
    projects = build(tmp_path)
    cursor = tick(projects)
    tick(projects, later(cursor, 14 * MINUTES))
    with projects.open() as project:
        assert alert_texts(project) == []
    cursor = tick(projects, later(cursor, 16 * MINUTES))
    tick(projects, cursor)
    with projects.open() as project:
        [incident] = project.store.incidents.of(CLICKS)
        assert incident.kind == kind
        [text] = alert_texts(project)
    assert f"({kind}) is open for 16 min: {reason}" in text
    assert "--close" not in text


def test_the_incident_of_a_state_that_is_over_is_closed_and_the_next_one_is_another(
    tmp_path: Path,
) -> None:
    projects = projects_with_paused_secondary(tmp_path, "s1")
    tick(projects, later(tick(projects), 16 * MINUTES))
    with projects.open() as project:
        a_heartbeat(project, "s1", epoch=1, observed=STANDS_BY)
    tick(projects)
    with projects.open() as project:
        [closed] = project.store.incidents.of(CLICKS, open_only=False)
        assert closed.outcome == "over: active_standby is covered"
        cold = SECONDARY[Tier.PASSIVE_STANDBY_COLD]
        a_heartbeat(project, "s1", epoch=2, observed=cold, state=ReplicaState.PAUSED)
    tick(projects, later(tick(projects), 16 * MINUTES))
    with projects.open() as project:
        [incident] = project.store.incidents.of(CLICKS)
        assert incident.id != closed.id


def test_a_stream_that_is_stopped_lacks_nothing(tmp_path: Path) -> None:
    projects = projects_with_paused_secondary(tmp_path, "s1")
    cursor = tick(projects, later(tick(projects), 16 * MINUTES))
    with projects.open() as project:
        project.store.streams.desire(CLICKS, DesiredState.STOPPED)
    tick(projects, cursor)
    with projects.open() as project:
        assert project.store.incidents.of(CLICKS) == []


def test_a_recovery_that_is_open_is_the_only_incident(tmp_path: Path) -> None:
    projects = projects_with_paused_secondary(tmp_path, "s1")
    with projects.open() as project:
        recovery = a_recovery(project.store, lost_primary("p0", stream=CLICKS))
    tick(projects, later(tick(projects), 16 * MINUTES))
    with projects.open() as project:
        assert [row.id for row in project.store.incidents.of(CLICKS)] == [recovery.id]
