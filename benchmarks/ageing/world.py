"""The outside world of a simulated month: its clock, the control store and the object store that go by it.

The month lies in the past: it ends when the ageing began, so the product goes on with the real clock afterwards.
"""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from sqlalchemy import event

from holdfast.resources.clock import SYSTEM_CLOCK
from holdfast.resources.control_store.database import HOST_TIME
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.object_store.embedded import BUCKET
from holdfast.resources.object_store.s3 import MissingObjectError, ObjectStore, StoredObject
from holdfast.resources.project import Project


@dataclass
class SimulatedClock:
    """A clock that stands still until the simulation moves it; durations are real."""

    at: float

    def now(self) -> float:
        """Unix seconds of the simulation."""
        return self.at

    def monotonic(self) -> float:
        """Real seconds that never run backwards."""
        return SYSTEM_CLOCK.monotonic()

    def sleep(self, seconds: float) -> None:
        """Move the clock."""
        self.at += seconds


@dataclass
class FolderObjectStore:
    """The folder of the embedded object store without its server: the same objects, dated by the simulated clock."""

    root: Path
    clock: SimulatedClock
    requests: int = 0

    def put(self, key: str, body: bytes | BinaryIO) -> None:
        """Store an object as the server does: a file of that name."""
        self.requests += 1
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body if isinstance(body, bytes) else body.read())
        os.utime(path, (self.clock.at, self.clock.at))

    def create(self, key: str, body: bytes) -> None:
        """Store an object, as a server without conditional writes does."""
        self.put(key, body)

    def get(self, key: str) -> bytes:
        """Read a whole object."""
        return b"".join(self.read(key))

    def read(self, key: str, *, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Read an object or a range of it."""
        self.requests += 1
        try:
            body = (self.root / key).read_bytes()
        except FileNotFoundError as error:
            raise MissingObjectError(f"get {key}: no such object", hint="") from error
        yield body[start : None if length is None else start + length]

    def list(self, prefix: str) -> list[StoredObject]:
        """All objects whose key starts with the prefix, a folder, ordered by key."""
        self.requests += 1
        objects = []
        for folder, _, names in os.walk(self.root / prefix):
            for name in names:
                path = Path(folder) / name
                about = path.stat()
                key = str(path.relative_to(self.root))
                objects.append(StoredObject(key, about.st_size, about.st_mtime))
        return sorted(objects, key=lambda stored: stored.key)

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects."""
        self.requests += 1
        for key in keys:
            (self.root / key).unlink(missing_ok=True)

    def read_clock(self) -> float:
        """The simulated time."""
        return self.clock.at


@dataclass(frozen=True, slots=True)
class SimulatedProject(Project):
    """A project whose object store goes by the simulated clock."""

    objects: FolderObjectStore = field(kw_only=True)

    def object_store(self) -> ObjectStore:
        """The folder of the embedded object store."""
        return self.objects


@dataclass(frozen=True, slots=True)
class SimulatedResource:
    """The project as jobs of Dagster open it."""

    project: SimulatedProject

    @contextmanager
    def open(self) -> Iterator[Project]:
        """The same project each time."""
        yield self.project


def simulate(project: Project, clock: SimulatedClock) -> SimulatedProject:
    """The project under the simulated clock; its control store keeps that clock from then on."""
    set_store_clock(project.store, clock)
    objects = FolderObjectStore(project.config.home / "objects" / BUCKET, clock)
    return SimulatedProject(project.config, project.store, clock=clock, objects=objects)


def set_store_clock(store: ControlStore, clock: SimulatedClock) -> None:
    """Let SQLite's clock, as this process sees it, be the simulated one."""

    def replace_clock(connection: sqlite3.Connection, _record: object) -> None:
        connection.create_function(HOST_TIME, 0, clock.now)

    engine = store._database.engine  # noqa: SLF001 - no other process is in the simulation
    event.listen(engine, "connect", replace_clock)
    engine.dispose()
