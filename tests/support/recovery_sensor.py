"""The recovery sensor as tests evaluate it, and the streams that it looks at."""

from pathlib import Path

import dagster as dg

from holdfast.orchestration.sensors.recovery import recovery_sensor
from holdfast.resources.control_store.records import Incident
from tests.fakes.worlds import (
    CLICKS,
    PATIENT,
    SimulatedWorlds,
    a_primary,
    a_wanted_stream,
    simulated_worlds,
)


def tick(worlds: SimulatedWorlds) -> dg.SensorResult:
    """One evaluation, as a daemon of its own would do it."""
    result = recovery_sensor(worlds=worlds)
    assert isinstance(result, dg.SensorResult)
    return result


def requested(worlds: SimulatedWorlds) -> list[str]:
    return [str(one.run_key) for one in tick(worlds).run_requests or []]


def incidents(worlds: SimulatedWorlds) -> list[Incident]:
    with worlds.open() as world:
        return world.store.incidents.of(CLICKS, open_only=False)


def standby_worlds(root: Path, tier: str = "active_standby") -> SimulatedWorlds:
    """A stream with a primary that is well, whose tier was held before."""
    worlds = simulated_worlds(root, tier=tier, supervision=PATIENT)
    with worlds.open() as world:
        a_wanted_stream(world)
        a_primary(world, "p1")
        world.store.tiers.reached(CLICKS, tier=tier)
    return worlds
