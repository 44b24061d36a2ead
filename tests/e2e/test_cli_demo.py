"""The demo as a user runs it, and as a user interrupts it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
HOLDFAST = str(Path(sys.executable).parent / "holdfast")
START_SECONDS = 180.0


def marked(folder: Path) -> list[str]:
    """The processes that a demo in this folder has started and that still run."""
    processes = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("HOLDFAST_DEMO") == str(folder):
                processes.append(f"{process.pid} {process.name()}")
        except (psutil.Error, OSError):
            continue
    return processes


def test_the_demo_kills_a_driver_and_proves_the_output(tmp_path: Path) -> None:
    folder = tmp_path / "demo"

    done = subprocess.run(
        [HOLDFAST, "demo", "--folder", str(folder), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["holds"]
    assert outcome["proof"]["epochs"] >= 30
    assert outcome["proof"]["rows_out"] > 0
    assert outcome["proof"]["digest"] == outcome["proof"]["digest_expected"]
    assert [step["step"] for step in outcome["recovery"]["steps"]] == [
        "Fence",
        "Launch",
        "AwaitCatchUp",
    ]
    seconds = outcome["recovery"]["seconds"]
    assert 0 <= seconds["detected"] <= seconds["launched"] <= seconds["recovered"]
    assert outcome["left_running"] == []
    assert marked(folder) == []
    assert not folder.exists()


@pytest.mark.slow
def test_an_interrupted_demo_leaves_no_process_and_no_folder(tmp_path: Path) -> None:
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # else a background run's demo ignores it
    folder = tmp_path / "demo"
    with subprocess.Popen(
        [HOLDFAST, "demo", "--folder", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as demo:

        def has_started_replica() -> bool:
            assert demo.poll() is None
            return any(folder.glob(".holdfast/replicas/*/replica.log"))

        wait_until(
            has_started_replica,
            within_seconds=START_SECONDS,
            every_seconds=0.2,
            story=lambda: "the demo started no replica",
        )
        os.kill(demo.pid, signal.SIGINT)
        said, _ = demo.communicate(timeout=120)

    assert demo.returncode == 130, said.decode()
    assert marked(folder) == []
    assert not folder.exists()
