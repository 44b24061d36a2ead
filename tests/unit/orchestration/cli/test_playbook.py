"""Playbooks on a screen: steps as they are done, errors without a traceback."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.playbooks.recover.steps import AwaitCatchUp, Launch
from holdfast.orchestration.cli.playbook import run_for_streams, step_facts, step_line
from holdfast.orchestration.cli.terminal import FAILED
from holdfast.orchestration.playbooks.base import StepDone
from holdfast.orchestration.playbooks.recover_secondary import Measured, ReplicaLaunched
from holdfast.resources.project import Project
from tests.builders.recorded_stream import STREAM, an_open_project
from tests.cli import holdfast_json


class BringUp:
    """A playbook that comes up everywhere but on one stream."""

    def __init__(self, project: Project, stream: str, run: str) -> None:
        self.stream = stream

    def steps(self) -> Iterator[StepDone[Any]]:
        replica = f"{self.stream}-1"
        yield StepDone(step=Launch(), seconds=0.4, result=ReplicaLaunched(replica))
        if self.stream == "broken":
            raise PermanentError("it fails each time", hint="mend it")
        result = {"t_deploy_seconds": 8.1, "t_read_snapshot_seconds": 0.3, "t_replay_seconds": 2.0}
        yield StepDone(step=AwaitCatchUp(replica), seconds=14.2, result=Measured(result))


def bring_up(project: Project, stream: str, run: str) -> Any:
    return BringUp(project, stream, run)


def test_each_step_is_a_line_with_its_seconds_and_parts(tmp_path: Path) -> None:
    console = Console(width=100, record=True, quiet=False, force_terminal=False)
    with an_open_project(tmp_path) as project:
        output = run_for_streams(project, [STREAM], bring_up, console, nothing_to_do="runs already")

    assert [step.name for step in output[0].steps] == ["Launch", "AwaitCatchUp"]
    shown = console.export_text()
    assert "✔ clicks  Launch 0.4 s (clicks-1)" in shown
    assert "✔ clicks  AwaitCatchUp 14.2 s (deploy 8.1 s, read snapshot 0.3 s, replay 2 s)" in shown


def test_one_stream_that_fails_does_not_hold_the_others_back(tmp_path: Path) -> None:
    with an_open_project(tmp_path) as project:
        output = run_for_streams(project, ["broken", STREAM], bring_up, None, nothing_to_do="")

    assert output[0].as_dict()["error"] == {"message": "it fails each time", "hint": "mend it"}
    assert len(output[0].steps) == 1
    assert output[1].error is None
    assert len(output[1].steps) == 2


def test_stopping_what_does_not_run_does_nothing(tmp_path: Path) -> None:
    with an_open_project(tmp_path):
        (stream,) = holdfast_json(tmp_path, "stop", STREAM)["streams"]

    assert stream["steps"] == []
    assert stream["error"] is None


def test_down_without_anything_running_is_no_error(tmp_path: Path) -> None:
    with an_open_project(tmp_path):
        output = holdfast_json(tmp_path, "down")

    assert output["dagster"] == {"stopped": False}
    assert output["object_store"] == {"stopped": False}


def test_a_step_whose_replica_was_lost_is_not_ticked_off() -> None:
    lost = Measured({}, failed="division by zero")
    facts = step_facts(StepDone(step=AwaitCatchUp("p1"), seconds=51.1, result=lost))
    assert facts["failed"] == "division by zero"
    assert step_line("clicks", facts) == f"{FAILED} clicks  AwaitCatchUp 51.1 s: division by zero"
