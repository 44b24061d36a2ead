"""`holdfast drill`: the plan, and who is not struck.

The primary of these tests is the test's own process, so nothing here gets as far as a fault.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.orchestration.playbooks.launch import declare
from holdfast.resources.project import Project
from tests.builders.projects import a_project, stream_yaml
from tests.builders.recorded_stream import STREAM, a_running_stream, an_open_project
from tests.cli import holdfast_json, run_holdfast
from tests.fakes.followers import PATIENT


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with an_open_project(a_project(tmp_path, clicks=stream_yaml(supervision=PATIENT))) as project:
        yield project


def test_a_dry_run_shows_what_each_step_would_do(tmp_path: Path, project: Project) -> None:
    a_running_stream(project)
    output = holdfast_json(tmp_path, "drill", STREAM, "--fault", "pause", "--dry-run")
    assert [step["step"] for step in output["steps"]] == [
        "InjectFault", "AwaitBack", "Recover", "Release", "Report",
    ]  # fmt: skip
    assert "in passive_replication, no prediction yet" in output["steps"][0]["does"]
    assert project.store.journal.of(STREAM) == []
    shown = run_holdfast(tmp_path, "drill", STREAM, "--dry-run")
    assert "1.  InjectFault" in shown.output
    assert "kills the driver of" in shown.output


def test_the_old_name_of_the_fault_option_still_works(tmp_path: Path, project: Project) -> None:
    a_running_stream(project)
    old = "--blow"  # house: old word
    assert holdfast_json(tmp_path, "drill", STREAM, old, "pause", "--dry-run")["fault"] == "pause"
    assert old not in run_holdfast(tmp_path, "drill", "--help").output
    both = run_holdfast(tmp_path, "drill", STREAM, "--fault", "kill", old, "pause", "--dry-run")
    assert both.exit_code == 2
    assert "--fault was given twice" in both.output


def test_no_fault_is_injected_without_consent(tmp_path: Path, project: Project) -> None:
    a_running_stream(project)
    refused = run_holdfast(tmp_path, "drill", STREAM)
    assert refused.exit_code == 1
    assert "needs consent" in refused.output
    assert project.store.journal.of(STREAM) == []


def test_a_stream_that_does_not_run_is_left_alone(tmp_path: Path, project: Project) -> None:
    output = holdfast_json(tmp_path, "drill", STREAM, "--yes", code=1)
    assert output["error"]["message"].startswith("clicks has no measurements: it was never")
    declare(project.config, project.store, STREAM)
    output = holdfast_json(tmp_path, "drill", STREAM, "--yes", code=1)
    assert output["error"]["message"].startswith("clicks cannot be drilled: it is stopped")
    assert output["outcome"] is None


def test_an_unknown_stream_or_fault_is_reported(tmp_path: Path, project: Project) -> None:
    assert run_holdfast(tmp_path, "drill", "clocks", "--yes").exit_code == 1
    wrong = run_holdfast(tmp_path, "drill", STREAM, "--fault", "hug")
    assert wrong.exit_code == 2
