"""A silent primary is observed twice before it is believed to be lost: a clock may have been set."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from holdfast.ft_policies.health import Health
from holdfast.observation.status import observe_stream
from holdfast.orchestration.incidents import due_recoveries
from holdfast.orchestration.playbooks.base import StepSkipped
from holdfast.orchestration.playbooks.recover import Recover
from tests.builders.streams import CLICKS, a_heartbeat, a_primary, a_wanted_stream
from tests.fakes.clocks import SteppedClock, shift_clock
from tests.fakes.projects import SimulatedProject, simulated_projects


@dataclass
class PauseThat(SteppedClock):
    """Something happens in each pause."""

    happens: Callable[[], object] = lambda: None
    pauses: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.happens()


@pytest.fixture
def project(tmp_path: Path) -> Iterator[SimulatedProject]:
    """A stream whose primary was well until the store's clock was set ahead by an hour."""
    with simulated_projects(tmp_path).open() as project:
        a_wanted_stream(project)
        a_primary(project, "p1")
        shift_clock(project.store, 3600.0)
        yield project


def beat(project: SimulatedProject) -> None:
    a_heartbeat(project, "p1", epoch=1)


def test_a_clock_that_is_set_ahead_opens_no_incident(project: SimulatedProject) -> None:
    assert observe_stream(project, CLICKS).verdict.health is Health.DISPUTED
    pause = PauseThat(happens=lambda: beat(project))
    assert due_recoveries(replace(project, clock=pause)) == []
    assert pause.pauses == [project.timings(CLICKS).second_look_seconds]


def test_a_primary_that_stays_silent_is_recovered(project: SimulatedProject) -> None:
    [due] = due_recoveries(replace(project, clock=PauseThat()))
    assert due.incident.detail["health"] == "disputed"


def test_a_dead_process_needs_no_second_look(tmp_path: Path) -> None:
    with simulated_projects(tmp_path).open() as project:
        a_wanted_stream(project)
        a_primary(project, "p1", alive=False)
        pause = PauseThat()
        assert len(due_recoveries(replace(project, clock=pause))) == 1
        assert pause.pauses == []


@pytest.mark.parametrize("lives", [True, False])
def test_only_a_primary_without_a_sign_of_life_is_fenced(
    project: SimulatedProject, *, lives: bool
) -> None:
    pause = PauseThat(happens=lambda: beat(project) if lives else None)
    recover = Recover(replace(project, clock=pause), CLICKS, "run")
    step = recover.decide(recover.observe())
    assert step is not None
    assert step.name == "Fence"
    result = recover.act(step)
    row = project.store.replicas.get("p1")
    assert row is not None
    assert (result == StepSkipped(), row.state.ended) == (lives, not lives)
