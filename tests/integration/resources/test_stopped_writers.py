"""A process that is stopped while it holds the write lock of SQLite."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from holdfast.ft_policies.errors import TransientError
from holdfast.resources.control_store.store import ControlStore
from tests.builders.control_rows import a_proposal
from tests.waiting import wait_until

pytestmark = pytest.mark.integration

HOLD_THE_LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.readline()
connection.execute("ROLLBACK")
"""
START_A_REPLICA = """
import subprocess
print(subprocess.Popen(["sleep", "60"], start_new_session=True).pid, flush=True)
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ControlStore]:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db?timeout=0.2") as store:
        yield store


def a_command(folder: Path, code: str = HOLD_THE_LOCK) -> list[str]:
    """A script that is called like the command."""
    (folder / "holdfast").write_text(code)
    return [str(folder / "holdfast")]


def a_module(folder: Path) -> list[str]:
    """A module that is called like that of a replica, below the folder that Python is started in."""
    (folder / "holdfast/streaming").mkdir(parents=True)
    for module in ("__init__.py", "streaming/__init__.py"):
        (folder / "holdfast" / module).write_text("")
    (folder / "holdfast/streaming/replica.py").write_text(HOLD_THE_LOCK)
    return ["-m", "holdfast.streaming.replica"]


@contextmanager
def a_writer(
    store: ControlStore, *program: str, folder: Path | None = None
) -> Iterator["subprocess.Popen[str]"]:
    """A process in the middle of a write; the program says what it is."""
    file = str(store._database.address.database)
    command = [sys.executable, *(program or ("-c", HOLD_THE_LOCK)), file]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "locked\n"
            yield process
        finally:
            process.kill()


def stop(process: "subprocess.Popen[str]") -> None:
    os.kill(process.pid, signal.SIGSTOP)
    wait_until(lambda: Path(f"/proc/{process.pid}/stat").read_text().split()[2] == "T")


@pytest.mark.parametrize("program", [a_module, a_command], ids=["replica", "command"])
def test_a_holdfast_that_is_stopped_in_a_write_is_ended_and_the_store_is_free(
    store: ControlStore, tmp_path: Path, program: Callable[[Path], list[str]]
) -> None:
    with a_writer(store, *program(tmp_path), folder=tmp_path) as process:
        assert store.lock_holders() == {process.pid}
        stop(process)
        with pytest.raises(TransientError, match=f"locked by process {process.pid}, which was"):
            store.epochs.propose(a_proposal(0))
        assert process.poll() is not None
        assert store.epochs.propose(a_proposal(0)).epoch == 0
        assert store.lock_holders() == set()


def test_a_replica_that_the_stopped_command_has_started_lives_on(
    store: ControlStore, tmp_path: Path
) -> None:
    file = str(store._database.address.database)
    program = a_command(tmp_path, START_A_REPLICA + HOLD_THE_LOCK)
    command = [sys.executable, *program, file]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        replica = psutil.Process(int(process.stdout.readline()))
        try:
            assert process.stdout.readline() == "locked\n"
            stop(process)
            with pytest.raises(TransientError):
                store.epochs.propose(a_proposal(0))
            assert process.poll() is not None
            assert replica.is_running()
        finally:
            replica.kill()
            process.kill()


def test_a_holdfast_that_runs_is_left_alone_and_named(store: ControlStore, tmp_path: Path) -> None:
    with a_writer(store, *a_command(tmp_path)) as process:
        with pytest.raises(TransientError, match=f"locked by process {process.pid}$"):
            store.epochs.propose(a_proposal(0))
        assert process.poll() is None


def test_another_program_that_is_stopped_is_left_alone_and_named(store: ControlStore) -> None:
    with a_writer(store) as process:
        stop(process)
        with pytest.raises(TransientError, match=f"by process {process.pid}, which is stopped"):
            store.epochs.propose(a_proposal(0))
        assert process.poll() is None
