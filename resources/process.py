"""Processes that outlive their parent, found again by id and birth time; those of replicas, too."""

import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from holdfast.ft_policies.health import Process
from holdfast.resources.control_store.records import ReplicaRow
from holdfast.resources.priority import set_session_nice

HOST = socket.gethostname()
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")

# Children that were started here are kept, so that an ended child is reaped and leaves no zombie.
_children: list["subprocess.Popen[bytes]"] = []


@dataclass(frozen=True, slots=True)
class ProcessHandle:
    """A process: its id alone may be reused, together with its birth time it is not.

    The birth time is in seconds since the machine started, so a process stays the same when the clock of
    the machine is set.
    """

    pid: int
    started_at: float

    @classmethod
    def this(cls) -> "ProcessHandle":
        """The calling process."""
        return cls.of(os.getpid())

    @classmethod
    def of(cls, pid: int) -> "ProcessHandle":
        """The process that has this id now."""
        return cls(pid, _birth(pid))

    def is_alive(self) -> bool:
        """Whether the process still runs; a stopped process does, a zombie does not."""
        return self._process() is not None

    def terminate(self, *, wait_seconds: float, kill: bool = True) -> bool:
        """Ask the process to end and wait; then end it and its children by force, if `kill`."""
        process = self._process()
        if process is None:
            return True
        try:
            process.terminate()
            process.wait(wait_seconds)
        except psutil.NoSuchProcess:
            return True
        except psutil.TimeoutExpired:
            if not kill:
                return False
            self.kill()
        return True

    def kill(self) -> None:
        """End it and its children at once."""
        psutil.wait_procs(self.send(signal.SIGKILL), timeout=5)

    def send(self, number: signal.Signals) -> list[psutil.Process]:
        """Send a signal to the process and its children; returns all of them."""
        process = self._process()
        processes = [] if process is None else [*process.children(recursive=True), process]
        for member in processes:
            with suppress(psutil.NoSuchProcess):
                member.send_signal(number)
        return processes

    def _process(self) -> psutil.Process | None:
        try:
            process = psutil.Process(self.pid)
            same = _birth(self.pid) == self.started_at
            return process if same and process.status() != psutil.STATUS_ZOMBIE else None
        except (psutil.NoSuchProcess, ProcessLookupError, FileNotFoundError, ValueError):
            return None


def _birth(pid: int) -> float:
    """When a process was started, in seconds since the machine was."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    return float(stat.rpartition(")")[2].split()[19]) / CLOCK_TICKS


def launch(
    command: Sequence[str],
    *,
    folder: Path,
    output: Path,
    environment: Mapping[str, str],
    nice: int = 0,
) -> ProcessHandle:
    """Start a command in a session of its own, with its output in a file; `nice` lets it give way to others."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("ab") as sink:
        process = subprocess.Popen(  # noqa: S603 - commands are our own
            list(command),
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _children[:] = [child for child in _children if child.poll() is None] + [process]
    if nice:
        _lower(process.pid, nice)
    return ProcessHandle.of(process.pid)


def _lower(leader: int, nice: int) -> None:
    """Lower the processes of a session among themselves, and the session against others."""
    if nice > os.getpriority(os.PRIO_PROCESS, 0):
        with suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PGRP, leader, nice)
    set_session_nice(nice, leader)


def log_tail(output: Path) -> str:
    """The last line that a process wrote to its file."""
    lines = output.read_text(errors="replace").strip().splitlines() if output.exists() else []
    return lines[-1].strip() if lines else "it says nothing"


def process_of(row: ReplicaRow) -> ProcessHandle | None:
    """The process of a replica, if it is known and on this host."""
    if row.host != HOST or row.pid is None or row.pid_started_at is None:
        return None
    return ProcessHandle(row.pid, row.pid_started_at)


def process_state(row: ReplicaRow | None) -> Process:
    """What the operating system says of a replica's process."""
    process = None if row is None else process_of(row)
    if process is None:
        return Process.UNKNOWN
    return Process.RUNNING if process.is_alive() else Process.GONE


def is_over(row: ReplicaRow) -> bool:
    """Whether a replica of this host has ended, by its row and by what the operating system says."""
    process = process_of(row)
    alive = process is not None and process.is_alive()
    return row.state.ended and row.host == HOST and not alive
