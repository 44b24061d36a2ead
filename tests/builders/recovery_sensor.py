"""The recovery sensor as tests evaluate it, and the streams that it looks at."""

from pathlib import Path

import dagster as dg

from holdfast.orchestration.sensors.recovery import recovery_sensor
from holdfast.resources.control_store.records import Incident
from tests.builders.streams import CLICKS, PATIENT, a_primary, a_wanted_stream
from tests.fakes.projects import SimulatedProjects, simulated_projects


def tick(projects: SimulatedProjects) -> dg.SensorResult:
    """One evaluation, as a daemon of its own would do it."""
    result = recovery_sensor(projects=projects)
    assert isinstance(result, dg.SensorResult)
    return result


def requested(projects: SimulatedProjects) -> list[str]:
    return [str(request.run_key) for request in tick(projects).run_requests or []]


def incidents(projects: SimulatedProjects) -> list[Incident]:
    with projects.open() as project:
        return project.store.incidents.of(CLICKS, open_only=False)


def standby_projects(root: Path, tier: str = "active_standby") -> SimulatedProjects:
    """A stream with a healthy primary, whose tier was reached before."""
    projects = simulated_projects(root, tier=tier, supervision=PATIENT)
    with projects.open() as project:
        a_wanted_stream(project)
        a_primary(project, "p1")
        project.store.tiers.record_reached(CLICKS, tier=tier)
    return projects
