"""A process that is stopped while it holds the write lock of SQLite."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.ft_policies.errors import TransientError
from holdfast.ft_policies.tiers import PRIMARY
from holdfast.resources.control_store.records import Slot
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.process import HOST, ProcessHandle
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


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ControlStore]:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db?timeout=0.2") as store:
        yield store


@contextmanager
def a_writer(store: ControlStore, *, registered: bool) -> Iterator["subprocess.Popen[str]"]:
    """A process in the middle of a write; it may be a replica of a stream."""
    file = str(store._database.address.database)
    command = [sys.executable, "-c", HOLD_THE_LOCK, file]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            if registered:
                register(store, ProcessHandle.of(process.pid))
            assert process.stdout is not None
            assert process.stdout.readline() == "locked\n"
            yield process
        finally:
            process.kill()


def register(store: ControlStore, process: ProcessHandle) -> None:
    store.replicas.register(
        id="r1", stream="words", slot=Slot.PRIMARY, desired=PRIMARY, host=HOST, folder=""
    )
    store.replicas.record_process("r1", pid=process.pid, pid_started_at=process.started_at)


def stop(process: "subprocess.Popen[str]") -> None:
    os.kill(process.pid, signal.SIGSTOP)
    wait_until(lambda: Path(f"/proc/{process.pid}/stat").read_text().split()[2] == "T")


def test_a_replica_that_is_stopped_in_a_write_is_ended_and_the_store_is_free(
    store: ControlStore,
) -> None:
    with a_writer(store, registered=True) as process:
        assert store.lock_holders() == {process.pid}
        stop(process)
        with pytest.raises(TransientError, match="locked"):
            store.epochs.propose(a_proposal(0))
        assert process.poll() is not None
        assert store.epochs.propose(a_proposal(0)).epoch == 0
        assert store.lock_holders() == set()


@pytest.mark.parametrize("registered", [True, False])
def test_a_process_that_runs_or_is_no_replica_is_left_alone(
    store: ControlStore, *, registered: bool
) -> None:
    with a_writer(store, registered=registered) as process:
        if not registered:
            stop(process)
        with pytest.raises(TransientError, match="locked"):
            store.epochs.propose(a_proposal(0))
        assert process.poll() is None
