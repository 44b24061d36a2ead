"""A stream with a primary that is well, and what playbooks do to it: real control store, simulated drivers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.ft_policies.playbooks.recover.steps import RecoverStep
from holdfast.observation.status import observe_stream
from holdfast.orchestration.playbooks.base import StepDone
from holdfast.orchestration.playbooks.recover import Recover
from holdfast.orchestration.playbooks.waiting import StreamWaiter
from holdfast.resources.clock import SYSTEM_CLOCK, Clock
from holdfast.resources.control_store.records import ReplicaRow
from holdfast.resources.project import Project
from tests.builders.projects import stream_yaml
from tests.builders.streams import CLICKS, PATIENT, a_primary, a_wanted_stream
from tests.fakes.drivers import SimulatedDrivers, simulated_drivers
from tests.fakes.projects import SimulatedProject, SimulatedProjects, simulated_projects


@contextmanager
def a_running_project(
    root: Path, *, clock: Clock = SYSTEM_CLOCK, **changes: object
) -> Iterator[SimulatedProject]:
    """A stream that is to run, with a healthy primary `p`."""
    projects = simulated_projects(root, supervision=PATIENT, **changes)
    projects.clock = clock
    with projects.open() as project:
        a_wanted_stream(project)
        a_primary(project, "p")
        yield project


@contextmanager
def a_driven_project(
    root: Path, *, clock: Clock = SYSTEM_CLOCK, **changes: object
) -> Iterator[tuple[SimulatedProject, SimulatedDrivers]]:
    """The same, and launched replicas follow their switches."""
    with (
        a_running_project(root, clock=clock, **changes) as project,
        simulated_drivers(project) as drivers,
    ):
        yield project, drivers


def recovery_steps(
    project: Project, beat: Callable[[], None] = lambda: None
) -> Iterator[StepDone[RecoverStep]]:
    return Recover(project=project, stream=CLICKS, run="run", keep_alive=beat).steps()


def run_recovery(drivers: SimulatedDrivers) -> list[str]:
    return [step.name for step in recovery_steps(drivers.project, drivers.act)]


def a_waiter(project: Project, beat: Callable[[], None] = lambda: None) -> StreamWaiter:
    return StreamWaiter(project=project, stream=CLICKS, began_at=0.0, keep_alive=beat)


def take_over(project: Project, secondary: str, *, primary: str | None = None) -> None:
    """The secondary becomes the primary; `primary` is whom it takes over from, if it lives."""
    taken = project.store.takeovers.take(
        CLICKS, secondary, primary=primary, observed=None, ttl_seconds=3.0, reason="gone"
    )
    assert taken is not None


def secondary_of(project: Project) -> ReplicaRow:
    row = observe_stream(project, CLICKS).secondary
    assert row is not None
    return row


def replica_of(project: Project, replica: str) -> ReplicaRow:
    row = project.store.replicas.get(replica)
    assert row is not None
    return row


DECLARED = {
    "supervision": PATIENT,
    "epoch": {"seconds": "10ms", "silence": "10ms"},
    "checkpoint": {"epochs": 1},
    "secondary": {"sync": "10ms"},
}


@contextmanager
def a_recovered_project(
    root: Path, *, clock: Clock = SYSTEM_CLOCK, **changes: object
) -> Iterator[tuple[SimulatedProjects, Project, SimulatedDrivers]]:
    projects = simulated_projects(root, **{**DECLARED, **changes})
    projects.timing_changes["slack_seconds"] = 0.1  # there are no epochs to wait for
    with projects.open() as project, simulated_drivers(project) as drivers:
        a_wanted_stream(project)
        run_recovery(drivers)
        yield projects, project, drivers


@contextmanager
def redeclared_project(projects: SimulatedProjects, **changes: object) -> Iterator[Project]:
    """The project after an edit of the stream's file."""
    file = projects.root / "configs" / "streams" / f"{CLICKS}.yaml"
    file.write_text(stream_yaml(name=CLICKS, **{**DECLARED, **changes}), encoding="utf-8")
    with projects.open() as project:
        yield project


def primary_of(project: Project) -> ReplicaRow:
    row = observe_stream(project, CLICKS).primary
    assert row is not None
    return row


def memory_of(project: Project) -> str:
    row = project.store.streams.get(CLICKS)
    assert row is not None
    return str(row.declaration["resources"]["driver_memory"])


LARGER = {"resources": {"driver_memory": "2g"}}
