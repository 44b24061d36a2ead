"""Processes that outlive their parent, such as replicas: identified by process id and start time."""

import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psutil

from holdfast.ft_policies.health import Process
from holdfast.resources.clock import read_seconds_since_boot
from holdfast.resources.control_store.records import ReplicaRow
from holdfast.resources.priority import set_session_nice


def _read_boot() -> str:
    """The boot of this kernel, and this PID namespace: only there a process id means the same process.

    Names of hosts are not unique: cloned machines and containers may share one, and even the machine id.
    """
    kernel = Path("/proc/sys/kernel/random/boot_id")
    try:
        return f"{kernel.read_text().strip()}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:  # hidden in a sandbox
        return ""


HOST = socket.gethostname()
BOOT = _read_boot()
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
LONGEST_LOG_BYTES = 64 * 1024**2

# Children that were started here are kept, so that an ended child is reaped and leaves no zombie.
_children: list["subprocess.Popen[bytes]"] = []


@dataclass(frozen=True, slots=True)
class ProcessHandle:
    """A process, identified by its id and start time, since the system reuses ids.

    The start time is in seconds since boot, so that setting the machine's clock does not change it.
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
        return cls(pid, _read_start_time(pid))

    def is_alive(self) -> bool:
        """Whether the process still runs; a stopped process does, a zombie does not."""
        return self._process() is not None

    def age_seconds(self) -> float | None:
        """How long ago the process was started, whatever the machine's clock was set to; `None` if that is not known."""
        age = read_seconds_since_boot() - self.started_at
        return age if age >= 0.0 else None

    def terminate(self, *, wait_seconds: float, kill: bool = True) -> bool:
        """Send SIGTERM and wait; then kill the process and its children, if `kill`. False if it still runs."""
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
        """Send SIGKILL to the process and its children."""
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
            same = _read_start_time(self.pid) == self.started_at
            return process if same and process.status() != psutil.STATUS_ZOMBIE else None
        except (psutil.NoSuchProcess, ProcessLookupError, FileNotFoundError, ValueError):
            return None


def _read_start_time(pid: int) -> float:
    """The start time of a process, in seconds since boot."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    return float(stat.rpartition(")")[2].split()[19]) / CLOCK_TICKS


class Launcher(Protocol):
    """Starts the process of a replica."""

    def __call__(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        output: Path,
        environment: Mapping[str, str],
    ) -> ProcessHandle:
        """Start a command that outlives the caller, with its output in a file."""
        ...


def launch(
    command: Sequence[str],
    *,
    folder: Path,
    output: Path,
    environment: Mapping[str, str],
    nice: int = 0,
) -> ProcessHandle:
    """Start a command in a session of its own, with its output in a file; `nice` lowers its priority.

    A long file of an earlier process is moved aside, in place of the one that was moved before.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    if output.exists() and output.stat().st_size > LONGEST_LOG_BYTES:
        output.replace(output.with_name(f"{output.name}.1"))
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
    """Lower the priority of a session's processes, and of the session as a whole."""
    if nice > os.getpriority(os.PRIO_PROCESS, 0):
        with suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PGRP, leader, nice)
    set_session_nice(nice, leader)


def log_tail(output: Path) -> str:
    """The last line of a log file."""
    lines = output.read_text(errors="replace").strip().splitlines() if output.exists() else []
    return lines[-1].strip() if lines else "its log is empty"


def is_visible(host: str, boot: str) -> bool:
    """Whether process ids of that host and boot are those of this process, too; older records have no boot."""
    return host == HOST and boot in ("", BOOT)


def find_process(row: ReplicaRow) -> ProcessHandle | None:
    """The process of a replica; `None` if it was not started yet, or is on another host or of an earlier boot."""
    if not is_visible(row.host, row.boot) or row.pid is None or row.pid_started_at is None:
        return None
    return ProcessHandle(row.pid, row.pid_started_at)


def find_process_state(row: ReplicaRow | None) -> Process:
    """Whether a replica's process runs, as far as this host can see."""
    process = None if row is None else find_process(row)
    if process is None:
        return Process.UNKNOWN
    return Process.RUNNING if process.is_alive() else Process.GONE


def is_over(row: ReplicaRow) -> bool:
    """Whether a replica of this host has ended, by its row and by its process."""
    process = find_process(row)
    alive = process is not None and process.is_alive()
    return row.state.ended and row.host == HOST and not alive
