"""`holdfast drill`: the plan, and who is not struck.

The primary of these tests is the test's own process, so nothing here gets as far as a fault.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.orchestration.playbooks.launch import declare
from holdfast.resources.project import Project
from tests.fakes.declared import a_project, written
from tests.support.cli import facts, holdfast
from tests.support.cli_world import STREAM, a_running_stream, a_world
from tests.support.obedience import PATIENT


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Project]:
    with a_world(a_project(tmp_path, clicks=written(supervision=PATIENT))) as world:
        yield world


def test_a_dry_run_shows_what_each_step_would_do(tmp_path: Path, world: Project) -> None:
    a_running_stream(world)
    told = facts(tmp_path, "drill", STREAM, "--fault", "pause", "--dry-run")
    assert [step["step"] for step in told["steps"]] == [
        "InjectFault", "AwaitBack", "Recover", "Release", "Report",
    ]  # fmt: skip
    assert "in passive_replication, nothing is predicted yet" in told["steps"][0]["does"]
    assert world.store.journal.of(STREAM) == []
    shown = holdfast(tmp_path, "drill", STREAM, "--dry-run")
    assert "1.  InjectFault" in shown.output
    assert "kills the driver of" in shown.output


def test_the_old_name_of_the_fault_option_still_works(tmp_path: Path, world: Project) -> None:
    a_running_stream(world)
    told = facts(tmp_path, "drill", STREAM, "--blow", "pause", "--dry-run")
    assert told["fault"] == "pause"
    assert "--blow" not in holdfast(tmp_path, "drill", "--help").output


def test_nobody_is_struck_without_consent(tmp_path: Path, world: Project) -> None:
    a_running_stream(world)
    refused = holdfast(tmp_path, "drill", STREAM)
    assert refused.exit_code == 1
    assert "needs consent" in refused.output
    assert world.store.journal.of(STREAM) == []


def test_a_stream_that_does_not_run_is_left_alone(tmp_path: Path, world: Project) -> None:
    told = facts(tmp_path, "drill", STREAM, "--yes", code=1)
    assert told["error"]["message"].startswith("clicks was never started")
    declare(world.config, world.store, STREAM)
    told = facts(tmp_path, "drill", STREAM, "--yes", code=1)
    assert told["error"]["message"].startswith("clicks is left alone: it is stopped")
    assert told["outcome"] is None


def test_an_unknown_stream_or_fault_is_told(tmp_path: Path, world: Project) -> None:
    assert holdfast(tmp_path, "drill", "clocks", "--yes").exit_code == 1
    wrong = holdfast(tmp_path, "drill", STREAM, "--fault", "hug")
    assert wrong.exit_code == 2
