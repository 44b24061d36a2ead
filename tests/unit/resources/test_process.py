"""A process is known again by its id and its birth, whatever its machine's clock says."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from holdfast.resources import priority, process
from holdfast.resources.process import ProcessHandle, launch


def test_a_process_stays_itself_when_the_clock_of_the_machine_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    this = ProcessHandle.this()
    boot = psutil.boot_time()
    monkeypatch.setattr(psutil._pslinux, "boot_time", lambda: boot + 3600.0)
    assert ProcessHandle.this() == this
    assert this.is_alive()


def test_another_process_with_the_same_id_is_a_stranger() -> None:
    this = ProcessHandle.this()
    assert not ProcessHandle(this.pid, this.started_at + 0.01).is_alive()


def test_an_ended_process_is_not_alive_before_and_after_it_is_reaped() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    launched = ProcessHandle.of(child.pid)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not launched.is_alive()
    child.wait()
    assert not launched.is_alive()


def test_a_restarted_process_moves_a_long_log_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "LONGEST_LOG_BYTES", 3)
    log = tmp_path / "service.log"
    log.write_text("long")
    launched = launch(["true"], folder=tmp_path, output=log, environment={})
    launched.terminate(wait_seconds=5.0)
    assert log.read_text() == ""
    assert (tmp_path / "service.log.1").read_text() == "long"


def test_a_nice_one_gives_way_inside_and_between_sessions(tmp_path: Path) -> None:
    nice = max(7, os.getpriority(os.PRIO_PROCESS, 0) + 1)
    launched = launch(
        ["sleep", "60"], folder=tmp_path, output=tmp_path / "out", environment={}, nice=nice
    )
    try:
        assert os.getpriority(os.PRIO_PROCESS, launched.pid) == nice
        assert priority.session_nice(launched.pid) in {nice, None}
    finally:
        launched.kill()
