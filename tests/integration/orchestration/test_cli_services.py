"""`holdfast up` and `down` with a real Dagster: started once, found again, ended without a rest."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from holdfast.ft_policies.services import RestartPolicy
from holdfast.orchestration.services.access import read_token
from holdfast.orchestration.services.dagster_health import ask_health
from holdfast.resources.service import find_free_port
from tests.builders.projects import a_project, stream_yaml
from tests.private_files import open_to_others, usual_umask
from tests.waiting import wait_until

pytestmark = pytest.mark.integration

DEFINITIONS = """
import dagster as dg

@dg.asset
def one() -> None: ...

@dg.sensor(target=one, minimum_interval_seconds=3600)
def look():
    return dg.SkipReason("nothing to do")

defs = dg.Definitions(assets=[one], sensors=[look])
"""
WORKSPACE = "load_from:\n  - python_file: {relative_path: small.py, location_name: small}\n"


def holdfast(root: Path, *arguments: str, code: int = 0) -> Any:
    """The installed command in a process of its own, as the operator runs it."""
    command = [str(Path(sys.executable).parent / "holdfast"), "--project", str(root), *arguments]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout) if done.stdout else done.stderr


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A project whose Dagster has little to load; its processes are ended afterwards."""
    project = a_project(
        tmp_path, clicks=stream_yaml(), holdfast=f"dagster: {{port: {find_free_port()}}}\n"
    )
    (project / "workspace.yaml").write_text(WORKSPACE)
    (project / "small.py").write_text(DEFINITIONS)
    yield project
    holdfast(project, "down")
    assert of_project(project) == []


def of_project(root: Path) -> list[int]:
    """The processes that belong to this project's Dagster or object store."""
    processes = []
    for process in psutil.process_iter():
        try:
            marked = process.environ().get("DAGSTER_HOME") == str(root / ".holdfast" / "dagster")
            serves = str(root / ".holdfast" / "objects") in process.cmdline()
            if marked or serves:
                processes.append(process.pid)
        except (psutil.Error, OSError):
            continue
    return processes


def is_ready(root: Path, url: str) -> bool:
    return ask_health(url, read_token(root / ".holdfast")).ready


def processes_with(root: Path, module: str) -> list[psutil.Process]:
    processes = [psutil.Process(pid) for pid in of_project(root)]
    return [process for process in processes if module in process.cmdline()]


def eventually(holds: Callable[[], bool], *, seconds: float = 20.0) -> None:
    wait_until(holds, within_seconds=seconds, every_seconds=0.1)


def test_up_finds_what_runs_what_dies_is_replaced_and_down_leaves_nothing(root: Path) -> None:
    with usual_umask():
        first = holdfast(root, "up", "--no-streams")
    assert open_to_others(root / ".holdfast") == []
    second = holdfast(root, "up", "--no-streams")

    assert first["dagster"]["started"]
    assert first["object_store"]["started"]
    assert is_ready(root, first["dagster"]["url"])
    assert not second["dagster"]["started"]
    assert not second["object_store"]["started"]
    assert second["dagster"]["pid"] == first["dagster"]["pid"]
    assert len(of_project(root)) >= 4

    os.kill(first["dagster"]["pid"], signal.SIGKILL)
    eventually(lambda: not psutil.pid_exists(first["dagster"]["pid"]))
    third = holdfast(root, "up", "--no-streams")["dagster"]
    assert third["started"]
    assert third["pid"] != first["dagster"]["pid"]
    assert is_ready(root, third["url"])
    require_restarts(root, third["url"])

    gone = holdfast(root, "down")

    assert gone["dagster"] == {"stopped": True}
    assert gone["object_store"] == {"stopped": True}
    assert of_project(root) == []
    assert holdfast(root, "down")["dagster"] == {"stopped": False}


def require_restarts(root: Path, url: str) -> None:
    """A web server, a daemon and a code server that die are started again."""
    grace = RestartPolicy().start_seconds
    eventually(lambda: age_of_daemon(root) > grace, seconds=2 * grace)
    [web] = processes_with(root, "holdfast.orchestration.services.web")
    [daemon] = processes_with(root, "dagster._daemon")
    [code_server] = processes_with(root, "grpc")
    for process in (web, daemon, code_server):
        process.kill()

    eventually(lambda: not web.is_running() and is_ready(root, url), seconds=60)
    eventually(lambda: bool(processes_with(root, "dagster._daemon")))


def age_of_daemon(root: Path) -> float:
    [daemon] = processes_with(root, "dagster._daemon")
    return time.time() - daemon.create_time()  # noqa: TID251


def test_a_project_that_dagster_cannot_load_is_reported_at_once(root: Path) -> None:
    (root / "small.py").write_text("raise ValueError('no such stream')\n")

    result = holdfast(root, "up", "--no-streams", code=1)

    assert "cannot load the project" in result
    assert "dagster.log" in result
    assert holdfast(root, "down")["dagster"] == {"stopped": False}


def test_a_port_that_is_taken_is_reported_before_anything_starts(root: Path) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = holdfast(root, "up", "--no-streams", "--port", str(taken.getsockname()[1]), code=1)

    assert "is taken" in result
    assert "--port" in result
