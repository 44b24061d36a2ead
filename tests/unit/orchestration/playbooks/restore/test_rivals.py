"""A restore that is not alone: others restore the same stream, or start and stop it meanwhile."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.playbooks.restore import StopStream
from holdfast.orchestration.playbooks.base import InnerSteps, StepDone
from holdfast.orchestration.playbooks.lifecycle import Stop
from holdfast.orchestration.playbooks.recover import Start
from holdfast.orchestration.playbooks.restore.point import RestoreTarget
from holdfast.orchestration.playbooks.restore.restore import Restore
from holdfast.resources.control_store.records import DesiredState
from holdfast.resources.project import Project
from tests.builders.recorded_stream import a_restorable_stream, entries, output
from tests.builders.streams import CLICKS, PATIENT
from tests.fakes.projects import SimulatedProject, simulated_projects


@pytest.fixture
def project(tmp_path: Path) -> Iterator[SimulatedProject]:
    """A stream with a past, which is wanted."""
    with simulated_projects(tmp_path, supervision=PATIENT).open() as project:
        a_restorable_stream(project)
        project.store.streams.desire(CLICKS, DesiredState.RUNNING)
        yield project


def restoring(project: Project, epoch: int = 5) -> Iterator[StepDone[Any]]:
    return Restore(project, CLICKS, "run", target=RestoreTarget(epoch=epoch), why="bad app").steps()


def until(steps: Iterator[StepDone[Any]], name: str) -> None:
    for done in steps:
        if done.name == name:
            return
    raise AssertionError(f"there was no {name}")


def is_wanted(project: Project) -> bool:
    row = project.store.streams.get(CLICKS)
    return row is not None and row.is_desired


def test_the_slower_of_two_does_not_stop_what_the_faster_has_wanted_again(project: Project) -> None:
    faster = restoring(project)
    until(faster, "StopStream")
    slower = Restore(project, CLICKS, "slower", target=RestoreTarget(epoch=5))
    slower.begin()
    until(faster, "EndRestore")
    assert slower.act(StopStream()) == InnerSteps([])
    assert is_wanted(project)
    assert slower.observe().finished


def test_one_whose_place_another_took_says_so_and_restores_nothing(project: Project) -> None:
    first = restoring(project, 5)
    assert next(first).name == "StopStream"
    second = restoring(project, 6)
    with pytest.raises(
        PermanentError, match=r"to epoch 5 was replaced by another one, to epoch 6"
    ) as message:
        list(first)
    assert "holdfast restore clicks --epoch 6" in message.value.hint
    assert entries(project) == list(range(8))
    until(second, "EndRestore")
    assert output(project) == entries(project) == list(range(7))
    assert is_wanted(project), "the first had stopped it"


@pytest.mark.parametrize("done", ["StopStream", "BeginHistory", "RollOutput"])
def test_a_stream_that_is_stopped_during_its_restore_stays_stopped(
    project: Project, done: str
) -> None:
    steps = restoring(project)
    until(steps, done)
    list(Stop(project, CLICKS, "another").steps())
    assert [step.name for step in steps][-1] == "EndRestore"
    assert not is_wanted(project)


def test_a_stream_that_is_started_before_its_restore_begins_is_left_alone(
    project: Project,
) -> None:
    steps = restoring(project)
    until(steps, "StopStream")
    Start(project, CLICKS, "another").steps()
    with pytest.raises(
        PermanentError, match="to epoch 5 was dropped: the stream was started first"
    ):
        list(steps)
    assert is_wanted(project)
    assert entries(project) == list(range(8))


def test_a_restore_that_was_given_up_long_ago_starts_nothing(project: Project) -> None:
    until(restoring(project), "StopStream")
    Start(project, CLICKS, "another").steps()
    list(Stop(project, CLICKS, "another").steps())
    assert [step.name for step in restoring(project)][-1] == "EndRestore"
    assert not is_wanted(project)
