"""`holdfast check` and what all commands share: exit codes, errors in two lines, a fast start."""

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.ft_policies.errors import HoldfastError
from holdfast.orchestration.cli.main import app
from tests.builders.projects import a_project, stream_yaml
from tests.cli import holdfast_json, run_holdfast

HEAVY = ("dagster", "pyspark", "pandas", "boto3", "sqlalchemy", "pydantic")


def test_a_good_project_lists_its_streams(tmp_path: Path) -> None:
    root = a_project(tmp_path, clicks=stream_yaml())

    output = holdfast_json(root, "check")

    assert output["problems"] == []
    assert output["streams"] == [
        {
            "name": "clicks",
            "app": "json:loads",
            "source": "rate",
            "sink": "delta",
            "tier": "passive_replication",
            "recovery_time_seconds": 10.0,
            "guarantee": "precise",
        }
    ]


def test_every_mistake_has_its_place_field_value_and_what_is_allowed(tmp_path: Path) -> None:
    root = a_project(
        tmp_path,
        clicks=stream_yaml(output_mode="complete"),
        views=stream_yaml(name="views", objectives={"recovery_time": "1s"}),
    )

    problems = holdfast_json(root, "check", code=1)["problems"]

    assert {Path(p["file"]).name for p in problems} == {"clicks.yaml", "views.yaml"}
    mode = next(p for p in problems if p["field"] == "output_mode")
    assert mode["value"] == '"complete"'
    assert "append, update" in mode["message"]
    assert mode["line"] > 1


def test_the_screen_shows_mistakes_as_file_line_and_column(tmp_path: Path) -> None:
    root = a_project(tmp_path, clicks=stream_yaml(output_mode="complete"))

    result = run_holdfast(root, "check")

    assert result.exit_code == 1
    assert 'output_mode = "complete"' in result.stdout
    assert "clicks.yaml:" in result.stdout
    assert "1 mistake" in result.stdout


def test_a_project_without_mistakes_is_said_to_have_none(tmp_path: Path) -> None:
    result = run_holdfast(a_project(tmp_path, clicks=stream_yaml()), "check")

    assert result.exit_code == 0
    assert "1 stream declared, no mistake" in result.stdout


def test_our_errors_are_a_message_and_a_hint_and_exit_1(tmp_path: Path) -> None:
    root = a_project(tmp_path, clicks=stream_yaml())

    result = run_holdfast(root, "status", "click")

    assert result.exit_code == 1
    assert "error: no stream is called click" in result.stderr
    assert "hint: did you mean clicks?" in result.stderr
    assert "Traceback" not in result.output


def test_debug_shows_where_an_error_came_from(tmp_path: Path) -> None:
    root = a_project(tmp_path, clicks=stream_yaml())

    result = run_holdfast(root, "--debug", "status", "click")

    assert isinstance(result.exception, HoldfastError)


def test_commands_on_a_broken_project_show_its_mistakes(tmp_path: Path) -> None:
    root = a_project(tmp_path, clicks=stream_yaml(output_mode="complete"))

    refused, shown = run_holdfast(root, "start", "clicks"), run_holdfast(root, "costs")

    assert (refused.exit_code, shown.exit_code) == (1, 0)
    assert "output_mode" in refused.stderr
    assert "output_mode" in shown.stderr


@pytest.mark.parametrize("wrong", [["nonsense"], ["check", "--nonsense"], ["start"]])
def test_wrong_usage_leaves_with_2(tmp_path: Path, wrong: list[str]) -> None:
    assert run_holdfast(a_project(tmp_path, clicks=stream_yaml()), *wrong).exit_code == 2


def test_every_command_has_help_with_an_example(tmp_path: Path) -> None:
    groups = [[c.name or c.callback.__name__] for c in app.registered_commands if c.callback]
    (snapshots,) = [group.typer_instance for group in app.registered_groups]
    assert snapshots is not None
    groups += [
        ["snapshots", c.name or c.callback.__name__]
        for c in snapshots.registered_commands
        if c.callback
    ]

    for command in groups:
        result = run_holdfast(tmp_path, *command, "--help")
        assert result.exit_code == 0
        assert "Example" in result.stdout, command
        assert "--json" in result.stdout, command


def test_the_command_line_starts_without_what_is_heavy() -> None:
    code = f"import sys, holdfast.orchestration.cli.main; print([m for m in {HEAVY} if m in sys.modules])"

    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout

    assert loaded.strip() == "[]"


def test_a_warning_is_shown_and_leaves_with_0(tmp_path: Path) -> None:
    root = a_project(tmp_path, clicks=stream_yaml(resources={"driver_memory": "15t"}))
    result = run_holdfast(root, "check")
    assert result.exit_code == 0
    assert "warning: is more than the memory of this machine" in result.output
    [warning] = holdfast_json(root, "check")["warnings"]
    assert warning["field"] == "resources.driver_memory"
