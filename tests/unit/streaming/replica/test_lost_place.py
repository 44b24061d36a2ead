"""A driver that has lost its place leaves at once, and takes the processes that it started with it."""

import subprocess
import sys
import time
from pathlib import Path

import psutil

from holdfast.streaming.gate import Gate
from holdfast.streaming.replica.heartbeat import EXIT_LOST
from tests.waiting import wait_until

ATTEMPTS = 3

DRIVER = """
import logging, pathlib, subprocess, sys, time
from holdfast.streaming.gate import Gate, GateState
from holdfast.streaming.replica.heartbeat import EXIT_LOST
from holdfast.streaming.replica.process import _leave_at_once
folder = pathlib.Path(sys.argv[1])
logging.basicConfig(filename=folder / "log")
gate = Gate(folder)
gate.set(GateState(open=True, token=3))
jvm = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
(folder / "jvm").write_text(str(jvm.pid))
logging.warning("lost")
(folder / "lost_at").write_text(str(time.monotonic()))
try:
    _leave_at_once(gate, EXIT_LOST)
finally:
    (folder / "late").touch()
"""


def test_it_shuts_its_gate_keeps_its_log_and_kills_its_jvm(tmp_path: Path) -> None:
    seconds_to_leave(tmp_path)
    assert not Gate(tmp_path).get().open
    assert "lost" in (tmp_path / "log").read_text()
    assert not (tmp_path / "late").exists()
    jvm = int((tmp_path / "jvm").read_text())
    wait_until(lambda: not psutil.pid_exists(jvm))


def test_it_leaves_within_a_second(tmp_path: Path) -> None:
    """At the best of a few attempts: a machine that is busy now and then proves nothing."""
    folders = [tmp_path / str(number) for number in range(ATTEMPTS)]
    assert any(seconds_to_leave(folder) < 1.0 for folder in folders)


def seconds_to_leave(folder: Path) -> float:
    """From the moment at which a driver has lost its place until its process has ended."""
    folder.mkdir(exist_ok=True)
    driver = subprocess.run([sys.executable, "-c", DRIVER, str(folder)], check=False)
    left_at = time.monotonic()
    assert driver.returncode == EXIT_LOST
    return left_at - float((folder / "lost_at").read_text())
