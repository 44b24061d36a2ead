"""A stream with a primary that is well, and what playbooks do to it: real control store, simulated drivers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.ft_policies.playbooks.recover.steps import RecoverStep
from holdfast.observation.status import observe
from holdfast.orchestration.playbooks.base import StepDone
from holdfast.orchestration.playbooks.recover import Recover
from holdfast.orchestration.playbooks.waiting import StreamWaiter
from holdfast.resources.control_store.records import ReplicaRow
from holdfast.resources.project import Project
from tests.fakes.drivers import SimulatedDrivers, simulated_drivers
from tests.fakes.worlds import (
    CLICKS,
    PATIENT,
    SimulatedWorld,
    a_primary,
    a_wanted_stream,
    simulated_worlds,
)


@contextmanager
def a_running_world(root: Path, **changes: object) -> Iterator[SimulatedWorld]:
    """A stream that people want, with a primary `p` that is well."""
    with simulated_worlds(root, supervision=PATIENT, **changes).open() as world:
        a_wanted_stream(world)
        a_primary(world, "p")
        yield world


@contextmanager
def a_driven_world(
    root: Path, patch: pytest.MonkeyPatch, **changes: object
) -> Iterator[tuple[SimulatedWorld, SimulatedDrivers]]:
    """The same, and replicas that are launched do what they are told."""
    with (
        a_running_world(root, **changes) as world,
        simulated_drivers(world, patch) as drivers,
    ):
        yield world, drivers


def recovery(
    world: Project, beat: Callable[[], None] = lambda: None
) -> Iterator[StepDone[RecoverStep]]:
    return Recover(world=world, stream=CLICKS, run="run", keep_alive=beat).steps()


def recovered(drivers: SimulatedDrivers) -> list[str]:
    return [one.name for one in recovery(drivers.world, drivers.act)]


def a_watch(world: Project, beat: Callable[[], None] = lambda: None) -> StreamWaiter:
    return StreamWaiter(world=world, stream=CLICKS, began_at=0.0, keep_alive=beat)


def take_over(world: Project, secondary: str, *, primary: str | None = None) -> None:
    """The secondary becomes the primary; `primary` is whom it takes over from, if it lives."""
    taken = world.store.takeovers.take(
        CLICKS, secondary, primary=primary, seen=None, ttl_seconds=3.0, reason="gone"
    )
    assert taken is not None


def secondary_of(world: Project) -> ReplicaRow:
    row = observe(world, CLICKS).secondary
    assert row is not None
    return row


def replica_of(world: Project, replica: str) -> ReplicaRow:
    row = world.store.replicas.get(replica)
    assert row is not None
    return row
