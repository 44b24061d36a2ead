"""Migrations of a stream whose drivers are simulated: real control store, real declarations."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.observation.status import observe
from holdfast.orchestration.playbooks import migrate_steps
from holdfast.resources.control_store.records import ReplicaRow
from holdfast.resources.project import Project
from tests.fakes.declared import written
from tests.fakes.drivers import SimulatedDrivers, simulated_drivers
from tests.fakes.worlds import CLICKS, PATIENT, SimulatedWorlds, a_wanted_stream, simulated_worlds
from tests.support.playbooks import recovered

DECLARED = {
    "supervision": PATIENT,
    "epoch": {"seconds": "10ms", "silence": "10ms"},
    "checkpoint": {"epochs": 1},
    "secondary": {"sync": "10ms"},
}


@contextmanager
def a_live_world(
    root: Path, patch: pytest.MonkeyPatch, **changes: object
) -> Iterator[tuple[SimulatedWorlds, Project, SimulatedDrivers]]:
    patch.setattr(migrate_steps, "SLACK_SECONDS", 0.1)  # there are no epochs to wait for
    worlds = simulated_worlds(root, **{**DECLARED, **changes})
    with worlds.open() as world, simulated_drivers(world, patch) as drivers:
        a_wanted_stream(world)
        recovered(drivers)
        yield worlds, world, drivers


@contextmanager
def written_anew(worlds: SimulatedWorlds, **changes: object) -> Iterator[Project]:
    """The world after people have changed the stream's file."""
    file = worlds.root / "configs" / "streams" / f"{CLICKS}.yaml"
    file.write_text(written(name=CLICKS, **{**DECLARED, **changes}), encoding="utf-8")
    with worlds.open() as world:
        yield world


def primary_of(world: Project) -> ReplicaRow:
    row = observe(world, CLICKS).primary
    assert row is not None
    return row


def memory_of(world: Project) -> str:
    row = world.store.streams.get(CLICKS)
    assert row is not None
    return str(row.declaration["resources"]["driver_memory"])


LARGER = {"resources": {"driver_memory": "2g"}}
