"""How far a stream is behind its input, also while it has no driver: the source is read from outside."""

import logging
import threading
from collections.abc import Collection, Sequence

import pyarrow as pa

from holdfast.configs.declarations.sources import (
    FilesSource as FilesDeclaration,
    RateSource as RateDeclaration,
)
from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.ft_policies.errors import HoldfastError
from holdfast.ft_policies.health import (
    LAG_MEMORY_SECONDS,
    LagReading,
    compute_tolerated_lag,
)
from holdfast.resources.clock import SYSTEM_CLOCK
from holdfast.resources.control_store.records import ReplicaRow
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.object_store.resolve import connector, open_filesystem
from holdfast.resources.project import Project
from holdfast.streaming.sources.assigned import find_taken
from holdfast.streaming.sources.base import Source
from holdfast.streaming.sources.files import FilesSource
from holdfast.streaming.sources.folder import ListedFile
from holdfast.streaming.sources.lag import Lag, measure_lag
from holdfast.streaming.sources.rate import RateSource

log = logging.getLogger(__name__)

OBSERVER = "stream_observer"  # writes the samples of a stream without a driver
READ_WITHIN_SECONDS = 5.0
FRESH_SECONDS = 60.0  # a listing of the source may cost much, so it is not repeated sooner


class _Reading(threading.Thread):
    """Reads the lag of a stream beside the caller, who waits for a limited time."""

    def __init__(self, project: Project, stream: str) -> None:
        super().__init__(name=f"lag of {stream}", daemon=True)
        self._project, self._stream = project, stream
        self._began_at = SYSTEM_CLOCK.monotonic()
        self.lag: Lag | None = None

    def run(self) -> None:
        try:
            self.lag = _read_lag(self._project, self._stream)
        except Exception:
            log.exception("the lag of %s cannot be read", self._stream)

    @property
    def is_over(self) -> bool:
        """Whether its answer, if there is one, was asked for too long ago."""
        age_seconds = SYSTEM_CLOCK.monotonic() - self._began_at
        return not self.is_alive() and age_seconds > FRESH_SECONDS


_begun: dict[tuple[str, str], _Reading] = {}
"""By control store and stream; a reading that hangs stays here, so that no other is begun beside it."""


def read_lag(
    project: Project, stream: str, *, within_seconds: float = READ_WITHIN_SECONDS
) -> Lag | None:
    """Read the lag from outside a driver; `None` if the source cannot be read now, or not in time.

    A file system whose server is away may never answer (NFS), and who asks may have other streams to look after. What a
    slow listing has found is returned by a later call.
    """
    key = (project.store.url, stream)
    reading = _begun.get(key)
    if reading is None or reading.is_over:
        reading = _begun[key] = _Reading(project, stream)
        reading.start()
        reading.join(within_seconds)
    if reading.is_alive():
        return None
    _begun.pop(key, None)
    return reading.lag


def _read_lag(project: Project, stream: str) -> Lag | None:
    try:
        source = _open_source(project, project.config.stream(stream))
        return measure_lag(project.store, stream, source, at=project.store.now())
    except HoldfastError:
        return None


def last_lag(store: ControlStore, stream: str, replicas: Collection[str]) -> Lag | None:
    """The last lag that one of these has measured; `None` if that is longer ago than a minute."""
    since = store.now() - FRESH_SECONDS
    for reading in _readings(store, stream, replicas, since_at=since)[-1:]:
        rows = None if reading.rows is None else int(reading.rows)
        return Lag(rows=rows, seconds=reading.seconds)
    return None


def current_lag(project: Project, stream: str, primary: ReplicaRow | None) -> Lag | None:
    """The lag that the primary or the observer has measured within the last minute; without one, it is read from outside."""
    replicas = {OBSERVER} if primary is None else {OBSERVER, primary.id}
    return last_lag(project.store, stream, replicas) or read_lag(project, stream)


def lag_readings(store: ControlStore, primary: ReplicaRow, *, at: float) -> list[LagReading]:
    """What the primary has measured recently, oldest first."""
    return _readings(store, primary.stream, {primary.id}, since_at=at - LAG_MEMORY_SECONDS)


def find_tolerated_lag(declared: StreamDeclaration) -> float:
    """The seconds that a stream with this declaration may be behind its input while it keeps up."""
    source, pace = declared.source, declared.epoch.pace()
    arrival = source.settle + source.poll if isinstance(source, FilesDeclaration) else 0.0
    return compute_tolerated_lag(
        arrival_seconds=arrival,
        epoch_seconds=pace.epoch_seconds,
    )


def _readings(
    store: ControlStore, stream: str, replicas: Collection[str], *, since_at: float
) -> list[LagReading]:
    rows = {
        (sample.replica, sample.at): sample.value
        for sample in store.samples.series(stream, SampleName.LAG_ROWS, since_at=since_at)
    }
    return [
        LagReading(at=sample.at, seconds=sample.value, rows=rows.get((sample.replica, sample.at)))
        for sample in store.samples.series(stream, SampleName.LAG_SECONDS, since_at=since_at)
        if sample.replica in replicas
    ]


def _open_source(project: Project, declared: StreamDeclaration) -> Source:
    source = declared.source
    if isinstance(source, RateDeclaration):
        return RateSource(source)
    connect = connector(project.config.deployment.object_store, project.config.home)
    files, root = open_filesystem(project.config.resolve_path(source.path), connect)

    def find_assigned(listed: Sequence[ListedFile]) -> set[str]:
        return find_taken(project.store, declared.name, listed)

    return FilesSource(source, pa.schema([]), files, root, find_assigned)
