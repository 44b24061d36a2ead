"""The recovery sensor as tests evaluate it, and the streams that it looks at."""

from pathlib import Path

import dagster as dg

from holdfast.orchestration.sensors.recovery import recovery_sensor
from holdfast.resources.control_store.records import Incident
from tests.builders.streams import CLICKS, PATIENT, a_primary, a_wanted_stream
from tests.fakes.projects import SimulatedProjects, simulated_projects


def tick(worlds: SimulatedProjects) -> dg.SensorResult:
    """One evaluation, as a daemon of its own would do it."""
    result = recovery_sensor(worlds=worlds)
    assert isinstance(result, dg.SensorResult)
    return result


def requested(worlds: SimulatedProjects) -> list[str]:
    return [str(request.run_key) for request in tick(worlds).run_requests or []]


def incidents(worlds: SimulatedProjects) -> list[Incident]:
    with worlds.open() as world:
        return world.store.incidents.of(CLICKS, open_only=False)


def standby_projects(root: Path, tier: str = "active_standby") -> SimulatedProjects:
    """A stream with a healthy primary, whose tier was reached before."""
    worlds = simulated_projects(root, tier=tier, supervision=PATIENT)
    with worlds.open() as world:
        a_wanted_stream(world)
        a_primary(world, "p1")
        world.store.tiers.record_reached(CLICKS, tier=tier)
    return worlds
