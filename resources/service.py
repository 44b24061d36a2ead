"""Services that outlive the command that started them, such as the embedded object store and Dagster.

A service has a record: a file with the process id and birth time of its leader, by which any later
command finds it again, adopts it or stops it. A lock beside the record lets one command at a time start
or stop the service. The record of a service that has ended is kept: it holds the port, for example.
"""

import errno
import json
import os
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import Field, asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TextIO, TypeVar

import psutil

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.resources.clock import SYSTEM_CLOCK, Clock, wait_until
from holdfast.resources.file_lock import try_lock
from holdfast.resources.process import ProcessHandle

LOOPBACK = "127.0.0.1"
LOCK_WITHIN_SECONDS = 90.0
"""How long a command waits for another one that starts or stops the same service: no start takes longer."""
_LOCK_POLL_SECONDS = 0.05
_TAKEN = {errno.EADDRINUSE, errno.EACCES}
_SIGNAL_SECONDS = 5.0


class ServiceRecord(Protocol):
    """The fields of a service that its record file keeps: a dataclass with the leader's process."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def process(self) -> ProcessHandle:
        """The leader."""
        ...


R = TypeVar("R", bound=ServiceRecord)


class Startup(StrEnum):
    """How the start of a service went."""

    HEALTHY = "healthy"
    ENDED = "ended"
    TIMED_OUT = "timed_out"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRecordFile(Generic[R]):
    """The record of a service, and the lock under which it is started and stopped."""

    path: Path
    lock: Path
    parse: Callable[[Mapping[str, Any]], R]
    damaged_hint: str
    private: bool = False  # it holds keys: only its owner may read it

    def read(self) -> R | None:
        """The service that was started last, whether or not it runs; `None` before the first start."""
        try:
            return self.parse(json.loads(self.path.read_text()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError) as error:
            raise PermanentError(
                f"{self.path} is not readable: {error}", hint=self.damaged_hint
            ) from error

    def find_running(self) -> R | None:
        """The service whose leader is alive now."""
        record = self.read()
        return record if record is not None and record.process.is_alive() else None

    def write(self, record: R, **beside: str) -> None:
        """Replace the record in one step."""
        new = self.path.with_suffix(".json.new")
        if self.private:
            new.touch(mode=0o600)
            new.chmod(0o600)
        new.write_text(json.dumps(beside | asdict(record)))
        new.replace(self.path)

    def remove(self) -> None:
        """Forget the service."""
        self.path.unlink(missing_ok=True)

    @contextmanager
    def hold_lock(
        self, *, wait_seconds: float = LOCK_WITHIN_SECONDS, clock: Clock = SYSTEM_CLOCK
    ) -> Iterator[None]:
        """Wait until no other command starts or stops the service, and keep others waiting.

        Fails with a `TransientError` that names the other command if that takes too long: it may have been stopped.
        """
        self.lock.parent.mkdir(parents=True, exist_ok=True)
        with self.lock.open("a+") as lock:
            if not wait_until(
                lambda: try_lock(lock),
                patience_seconds=wait_seconds,
                poll_seconds=_LOCK_POLL_SECONDS,
                clock=clock,
            ):
                raise TransientError(
                    f"{self.lock} has been held for {wait_seconds:.0f} s by {_find_holder(lock)}",
                    hint="continue or end that process, then try again",
                )
            _record_holder(lock)
            yield


def _record_holder(lock: TextIO) -> None:
    """Write this process into the lock file, for the message of others; on a full disk it stays unnamed."""
    with suppress(OSError):
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()


def _find_holder(lock: TextIO) -> str:
    lock.seek(0)
    text = lock.read().strip()
    if not text.isdecimal():
        return "another process"
    try:
        stopped = psutil.Process(int(text)).status() == psutil.STATUS_STOPPED
    except psutil.Error:
        return "another process"
    return f"process {text}, which is stopped" if stopped else f"process {text}"


def await_healthy(
    process: ProcessHandle,
    is_healthy: Callable[[], bool],
    *,
    seconds: float,
    poll_seconds: float,
) -> Startup:
    """Poll until the service is healthy, its leader has ended or the time is over."""
    if not wait_until(
        lambda: not process.is_alive() or is_healthy(),
        patience_seconds=seconds,
        poll_seconds=poll_seconds,
    ):
        return Startup.TIMED_OUT
    return Startup.HEALTHY if process.is_alive() else Startup.ENDED


@dataclass(frozen=True, slots=True)
class ServiceSession:
    """All processes of a service: those in the session that its leader opened.

    Children of Dagster (web server, daemon, code servers, run workers) stay in its session; a replica that
    a run started opened a session of its own, and must live on. The leader's process id may be in use
    again, so a member must also have inherited the `marker` variables.
    """

    leader: ProcessHandle
    marker: Mapping[str, str]

    def members(self) -> list[psutil.Process]:
        """All processes of the session that run now."""
        return [process for process in psutil.process_iter() if self._has(process)]

    def stop(self, *, leader_seconds: float) -> bool:
        """Send SIGTERM to the leader, then terminate and kill the remaining members; false if one still runs."""
        self.leader.terminate(wait_seconds=leader_seconds, kill=False)
        members = self.members()
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in members:
                _send_signal(process, number)
            psutil.wait_procs(members, timeout=_SIGNAL_SECONDS)
            members = self.members()
        return not members

    def _has(self, process: psutil.Process) -> bool:
        try:
            if os.getsid(process.pid) != self.leader.pid:
                return False
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
            inherited = process.environ()
        except (psutil.Error, OSError):
            return False
        return all(inherited.get(name) == value for name, value in self.marker.items())


def _send_signal(process: psutil.Process, number: int) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return


def find_free_port() -> int:
    """A port of the loopback that no process listens on now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def is_port_free(port: int) -> bool:
    """Whether a service could listen on this port of the loopback."""
    error = find_bind_error(LOOPBACK, port)
    if error is not None and error.errno not in _TAKEN:
        raise error
    return error is None


def find_bind_error(host: str, port: int) -> OSError | None:
    """Why a service could not listen there; `None` if it could."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error
    return None
