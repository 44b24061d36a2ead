"""Waiting for a new primary to catch up: a long replay may take its time, a standstill may not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.ft_policies.errors import TransientError
from holdfast.orchestration.playbooks import waiting
from holdfast.resources.control_store.records import ReplicaState
from tests.builders.playbooks import a_running_project, recovery_steps
from tests.builders.streams import a_heartbeat
from tests.fakes.clocks import SteppedClock
from tests.fakes.projects import SimulatedProject

PATIENCE_SECONDS = 3 * waiting.POLL_SECONDS


@pytest.fixture
def project(tmp_path: Path) -> Iterator[SimulatedProject]:
    """A primary that replays, and patience for a few looks."""
    with a_running_project(tmp_path, clock=SteppedClock()) as project:
        project.timing_changes["progress_within_seconds"] = PATIENCE_SECONDS
        replay(project, 0)
        yield project


def replay(project: SimulatedProject, epoch: int) -> None:
    a_heartbeat(project, "p", epoch=epoch, state=ReplicaState.STARTING)


def test_a_replay_that_moves_is_waited_for_however_long_it_takes(project: SimulatedProject) -> None:
    epochs = iter(range(1, 20))

    def go_on() -> None:
        epoch = next(epochs, None)
        if epoch is None:
            a_heartbeat(project, "p", epoch=20)
        else:
            replay(project, epoch)

    assert [step.name for step in recovery_steps(project, go_on)] == ["AwaitCatchUp"]


def test_one_that_stands_still_is_not(project: SimulatedProject) -> None:
    with pytest.raises(TransientError, match="has not caught up and has finished no epoch"):
        list(recovery_steps(project))
