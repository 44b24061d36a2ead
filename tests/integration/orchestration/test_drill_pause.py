"""A drill that pauses a primary in the middle of a write: on SQLite that would stop all streams."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from holdfast.ft_policies.errors import TransientError
from holdfast.ft_policies.playbooks.drill import Fault, InjectFault
from holdfast.ft_policies.tiers import Tier
from holdfast.orchestration.playbooks.drill.drill import PAUSE_TRIES, Drill
from holdfast.resources.clock import SYSTEM_CLOCK, Clock
from holdfast.resources.process import ProcessHandle
from tests.builders.streams import CLICKS, a_primary, a_wanted_stream, decide_epoch
from tests.fakes.clocks import SteppedClock
from tests.fakes.projects import SimulatedProject, simulated_projects

pytestmark = pytest.mark.integration

WRITE = """
import signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
def finish(*_):
    if connection.in_transaction:
        connection.execute("ROLLBACK")
signal.signal(signal.SIGCONT, finish if sys.argv[2] == "finish" else signal.SIG_DFL)
sys.stdin.readline()
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
while True:
    signal.pause()
"""
FINISH, GO_ON = "finish", "go on"


@contextmanager
def a_writing_primary(
    root: Path, when_continued: str, clock: Clock = SYSTEM_CLOCK
) -> Iterator[tuple[SimulatedProject, psutil.Process]]:
    """A primary that holds the lock; once it was stopped and continued, it has finished its write or goes on."""
    projects = simulated_projects(root)
    projects.clock = clock
    with projects.open() as project:
        a_wanted_stream(project)
        a_primary(project, "p1")
        file = str(project.store._database.address.database)
        command = [sys.executable, "-c", WRITE, file, when_continued]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as child:
            try:
                born = ProcessHandle.of(child.pid).started_at
                project.store.replicas.record_process("p1", pid=child.pid, pid_started_at=born)
                assert child.stdin is not None
                assert child.stdout is not None
                print("write", file=child.stdin, flush=True)
                assert child.stdout.readline() == "locked\n"
                assert project.store.lock_holders() == {child.pid}
                yield project, psutil.Process(child.pid)
            finally:
                child.kill()


def pause(project: SimulatedProject) -> None:
    step = InjectFault(
        primary="p1",
        fault=Fault.PAUSE,
        tier=Tier.PASSIVE_REPLICATION,
        predicted_seconds=None,
        predicted_steps={},
    )
    Drill(project, CLICKS, "run").act(step)


def test_a_primary_that_holds_the_lock_is_continued_and_stopped_again_without_it(
    tmp_path: Path,
) -> None:
    with a_writing_primary(tmp_path, FINISH) as (project, process):
        pause(project)
        assert process.status() == psutil.STATUS_STOPPED
        assert project.store.lock_holders() == set()
        decide_epoch(project, 0)


def test_one_that_writes_in_each_attempt_is_let_go_and_the_drill_fails(tmp_path: Path) -> None:
    clock = SteppedClock()
    with a_writing_primary(tmp_path, GO_ON, clock) as (project, process):
        with pytest.raises(TransientError, match=f"each of {PAUSE_TRIES} attempts"):
            pause(project)
        assert process.status() != psutil.STATUS_STOPPED
        assert clock.at > SteppedClock().at
