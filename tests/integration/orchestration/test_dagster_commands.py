"""Dagster's own commands on this project: they load it and they run its jobs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from holdfast.resources.control_store.records import DesiredState, ReplicaState
from holdfast.resources.project import open_project
from tests.builders.delta_tables import a_commit, a_table, words
from tests.builders.projects import a_project, stream_yaml
from tests.builders.streams import CLICKS, a_dead_primary

pytestmark = pytest.mark.integration

REPO = Path(__file__).parents[3]
BIN = Path(sys.executable).parent


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A project and a Dagster home of the test's own."""
    home = tmp_path / "dagster"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    config = a_project(tmp_path / "project", clicks=stream_yaml())
    return {
        **os.environ,
        "DAGSTER_HOME": str(home),
        "HOLDFAST_PROJECT": str(config),
        "VIRTUAL_ENV": str(BIN.parent),
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
    }


def run(environment: dict[str, str], *command: str) -> str:
    done = subprocess.run(
        [BIN / command[0], *command[1:]],
        cwd=REPO,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    return output


def test_dg_checks_the_definitions(environment: dict[str, str]) -> None:
    assert "All definitions loaded successfully" in run(environment, "dg", "check", "defs")


def test_the_workspace_file_loads(environment: dict[str, str]) -> None:
    output = run(environment, "dagster", "definitions", "validate", "-w", "workspace.yaml")
    assert "Validation successful for code location holdfast" in output


def a_dead_stream(environment: dict[str, str], desired: DesiredState) -> Path:
    root = Path(environment["HOLDFAST_PROJECT"])
    with open_project(root) as project:
        a_dead_primary(project)
        project.store.streams.desire(CLICKS, desired)
    return root


def state_of(root: Path) -> ReplicaState:
    with open_project(root) as project:
        [row] = project.store.replicas.of(CLICKS, live=False)
    return row.state


def test_a_job_runs_from_the_dagster_command(environment: dict[str, str], tmp_path: Path) -> None:
    root = a_dead_stream(environment, DesiredState.RUNNING)
    config = tmp_path / "run.yaml"
    config.write_text(yaml.safe_dump({"ops": {"stop": {"config": {"stream": CLICKS}}}}))
    run(
        environment,
        *("dagster", "job", "execute", "-m", "holdfast.orchestration.definitions"),
        *("-j", "stop_stream", "-c", str(config)),
    )
    assert state_of(root) is ReplicaState.DEAD


def test_a_job_runs_from_the_dg_command(environment: dict[str, str]) -> None:
    root = a_dead_stream(environment, DesiredState.STOPPED)
    config = json.dumps({"ops": {"recover": {"config": {"stream": CLICKS}}}})
    run(environment, "dg", "launch", "--job", "recover_stream", "--config-json", config)
    assert state_of(root) is ReplicaState.FENCED


# The code server starts a run like this: the main module has neither a spec nor a file.
RUN_PROCESS = """
import sys
main = sys.modules["__main__"]
assert main.__spec__ is None and not hasattr(main, "__file__")
from holdfast.orchestration.definitions import defs
reports, audit = (
    defs().resolve_job_def(name).execute_in_process(raise_on_error=False)
    for name in ("report_now", "audit")
)
checked = {check.check_name: check for check in audit.get_asset_check_evaluations()}
print("reports", len(reports.get_asset_materialization_events()))
print("expectations", checked["expectations"].metadata["rows_validated"].value)
"""


def test_reports_and_expectations_run_in_a_process_without_a_main_file(
    environment: dict[str, str],
) -> None:
    root = Path(environment["HOLDFAST_PROJECT"])
    suite = stream_yaml(expectations="tests.live.expectations:words")
    (root / "configs" / "streams" / "clicks.yaml").write_text(suite)
    with open_project(root) as project:
        a_dead_primary(project)
        path = project.config.table_path(CLICKS)
    a_table(path)
    a_commit(path, 0, words(3))
    output = run(environment, "python", "-c", RUN_PROCESS)
    assert "reports 6" in output
    assert "expectations 3" in output
