"""Detached services are found again by their record, and started by one command at a time."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.resources.process import ProcessHandle
from holdfast.resources.service import (
    LOOPBACK,
    ServiceRecordFile,
    Startup,
    await_healthy,
    find_bind_error,
    find_free_port,
    is_port_free,
)
from tests.fakes.clocks import SteppedClock
from tests.waiting import wait_until

HOLD_THE_LOCK = """
import pathlib, sys, time
from holdfast.resources.service import ServiceRecordFile
lock = pathlib.Path(sys.argv[1])
with ServiceRecordFile(path=lock, lock=lock, parse=dict, damaged_hint="").hold_lock():
    print("locked", flush=True)
    time.sleep(60)
"""
THIS = ProcessHandle.this()
ENDED = replace(THIS, started_at=THIS.started_at + 1.0)


@dataclass(frozen=True, slots=True)
class ARecord:
    pid: int
    started_at: float

    @property
    def process(self) -> ProcessHandle:
        return ProcessHandle(self.pid, self.started_at)


def parse(fields: Mapping[str, Any]) -> ARecord:
    return ARecord(fields["pid"], fields["started_at"])


def a_record_file(folder: Path, *, private: bool = False) -> ServiceRecordFile[ARecord]:
    return ServiceRecordFile(
        path=folder / "service.json",
        lock=folder / "run" / "service.lock",
        parse=parse,
        damaged_hint="remove the file",
        private=private,
    )


def test_a_service_is_found_while_its_leader_runs_and_its_record_is_kept_afterwards(
    tmp_path: Path,
) -> None:
    file = a_record_file(tmp_path)
    assert (file.read(), file.find_running()) == (None, None)
    file.write(ARecord(THIS.pid, THIS.started_at))
    assert file.find_running() == ARecord(THIS.pid, THIS.started_at)
    file.write(ARecord(ENDED.pid, ENDED.started_at))
    assert file.find_running() is None, "the id is in use again by another process"
    assert file.read() == ARecord(ENDED.pid, ENDED.started_at)
    file.remove()
    file.remove()
    assert file.read() is None


def test_a_record_that_holds_keys_is_for_its_owner_only(tmp_path: Path) -> None:
    file = a_record_file(tmp_path, private=True)
    file.write(ARecord(1, 2.0), endpoint="http://there")
    assert file.path.stat().st_mode & 0o077 == 0
    assert json.loads(file.path.read_text())["endpoint"] == "http://there"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"pid": 1}'])
def test_a_damaged_record_is_an_error_with_a_hint(tmp_path: Path, text: str) -> None:
    file = a_record_file(tmp_path)
    file.path.write_text(text)
    with pytest.raises(PermanentError, match="is not readable") as raised:
        file.read()
    assert raised.value.hint == "remove the file"


def test_one_command_at_a_time_holds_the_lock(tmp_path: Path) -> None:
    file, entered = a_record_file(tmp_path), threading.Event()

    def enter() -> None:
        with a_record_file(tmp_path).hold_lock():
            entered.set()

    with file.hold_lock():
        other = threading.Thread(target=enter)
        other.start()
        assert not entered.wait(0.1)
    other.join(5.0)
    assert entered.is_set()


def test_a_lock_that_is_not_released_is_an_error_that_names_its_holder(tmp_path: Path) -> None:
    clock = SteppedClock()
    with (
        a_record_file(tmp_path).hold_lock(),
        pytest.raises(TransientError, match=f"held for 90 s by process {os.getpid()}$") as raised,
        a_record_file(tmp_path).hold_lock(clock=clock),
    ):
        pytest.fail("the lock is another's")
    assert clock.at == pytest.approx(1090.0, abs=1.0)
    assert "process" in raised.value.hint


def test_a_holder_that_was_stopped_is_named_as_such(tmp_path: Path) -> None:
    file = a_record_file(tmp_path)
    file.lock.parent.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_THE_LOCK, str(file.lock)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        holder.send_signal(signal.SIGSTOP)
        process = psutil.Process(holder.pid)
        wait_until(lambda: process.status() == psutil.STATUS_STOPPED)
        with (
            pytest.raises(TransientError, match=f"by process {holder.pid}, which is stopped"),
            file.hold_lock(clock=SteppedClock()),
        ):
            pytest.fail("the lock is another's")
        holder.kill()
    with file.hold_lock():
        assert file.lock.read_text() == str(os.getpid())


def test_a_start_ends_healthy_or_with_its_leader_or_with_its_time() -> None:
    answers = iter([False, False, True])
    healthy = await_healthy(THIS, lambda: next(answers), seconds=5.0, poll_seconds=0.0)
    ended = await_healthy(ENDED, lambda: True, seconds=5.0, poll_seconds=0.0)
    late = await_healthy(THIS, lambda: False, seconds=0.0, poll_seconds=0.0)
    assert (healthy, ended, late) == (Startup.HEALTHY, Startup.ENDED, Startup.TIMED_OUT)


def test_a_port_that_a_server_listens_on_is_not_free() -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
        assert not is_port_free(port)
        assert find_bind_error(LOOPBACK, port) is not None
    assert is_port_free(find_free_port())
