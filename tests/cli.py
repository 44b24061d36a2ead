"""Running `holdfast` in tests: in this process, with what it printed as facts."""

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from holdfast.orchestration.cli.main import app
from holdfast.orchestration.cli.terminal import Terminal
from holdfast.resources.clock import SYSTEM_CLOCK, Clock


def run_holdfast(
    root: Path, *arguments: str, columns: int = 140, clock: Clock = SYSTEM_CLOCK
) -> Result:
    """Run a command on a project, on a screen of this width."""
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(
        app, ["--project", str(root), *arguments], obj=Terminal(clock=clock)
    )


def holdfast_json(root: Path, *arguments: str, code: int = 0) -> Any:
    """Run a command with --json and read what it says."""
    result = run_holdfast(root, *arguments, "--json")
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)
