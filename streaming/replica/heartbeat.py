"""The heartbeat of a replica: it renews the lease, reports what is on, and reads what is desired.

It is a thread of its own and does nothing else, so that neither a long batch nor a slow object
store looks like a dead replica. A control store that is unavailable or fails for a while changes
nothing: the lease is there for speed, not for safety. Only facts end a replica: another one holds
the lease, or its row has ended or is gone.
"""

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from holdfast.ft_policies.errors import HoldfastError, PermanentError
from holdfast.ft_policies.tiers import OFF, Switches
from holdfast.resources.clock import SYSTEM_CLOCK, Clock
from holdfast.resources.control_store.records import ReplicaRow, ReplicaState
from holdfast.resources.control_store.store import ControlStore
from holdfast.streaming.lease import StreamLease

EXIT_LOST = 3
LAST_RESORT_SECONDS = 1.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaReport:
    """What a replica reports of itself with each beat."""

    state: ReplicaState = ReplicaState.STARTING
    observed: Switches = OFF
    observed_generation: int = 0
    snapshot_served: int = 0
    epoch: int | None = None


class Heartbeat(threading.Thread):
    """Beats until it is stopped or the replica has lost its place; `row` is the replica as of the last beat.

    `written_seconds` grows while this replica can write: by the time between two beats that succeeded, of which a
    longer gap counts for two beats only, or for half a lease.
    """

    def __init__(
        self,
        store: ControlStore,
        row: ReplicaRow,
        lease: StreamLease,
        *,
        beat_seconds: float,
        on_lost: Callable[[], None],
        exit_process: Callable[[], None] = lambda: os._exit(EXIT_LOST),
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self._clock = clock
        self._quiet_since = clock.monotonic()
        self._longest_gap_seconds = min(2 * beat_seconds, lease.ttl_seconds / 2)
        self.last_beat_at: float | None = None
        self.written_seconds = 0.0
        self._store = store
        self._beat_seconds = beat_seconds
        self._on_lost = on_lost
        self._exit_process = exit_process
        self._ended = threading.Event()
        self._due = threading.Event()
        self._lock = threading.Lock()
        self._report = ReplicaReport()
        self.row = row
        self.lease = lease
        self.lost = threading.Event()

    def report(self, **changes: object) -> None:
        """Change what the next beat reports; a new epoch is reported at once, because a playbook may wait for it."""
        with self._lock:
            before = self._report
            self._report = replace(before, **changes)  # type: ignore[arg-type]
            if self._report.epoch != before.epoch:
                self._quiet_since = self._clock.monotonic()
                self._due.set()

    def beat_soon(self) -> None:
        """Beat without waiting for the next time."""
        self._due.set()

    def run(self) -> None:
        while True:
            self._due.wait(self._beat_seconds)
            self._due.clear()
            if self._ended.is_set():
                return
            try:
                self.beat()
            except HoldfastError as error:
                log.warning("a heartbeat failed and is retried: %s (%s)", error, error.hint)
            except Exception:
                log.exception("a heartbeat failed and is retried: unexpected error")
            if self.lost.is_set():
                return

    def beat(self) -> None:
        """Renew the lease, report, and read what is desired."""
        if not self.lease.renew():
            self._lose("another replica holds the lease")
        with self._lock:
            report, quiet_seconds = self._report, self._clock.monotonic() - self._quiet_since
        try:
            self.row = self._store.replicas.heartbeat(
                self.row.id,
                state=report.state,
                observed=report.observed,
                observed_generation=report.observed_generation,
                snapshot_served=report.snapshot_served,
                epoch=report.epoch,
                quiet_seconds=quiet_seconds,
            )
        except PermanentError:
            if self._store.replicas.get(self.row.id) is not None:
                raise
            self._lose("the control store has no row of it")
        if self.row.state.ended:
            self._lose(self.row.reason)
        self._count_beat()

    def stop(self) -> None:
        """Stop, and wait until the last beat is over."""
        self._ended.set()
        self._due.set()
        if self.is_alive() and threading.current_thread() is not self:
            self.join()

    def _count_beat(self) -> None:
        now = self._clock.monotonic()
        if self.last_beat_at is not None:
            self.written_seconds += min(now - self.last_beat_at, self._longest_gap_seconds)
        self.last_beat_at = now

    def _lose(self, reason: str) -> None:
        if self.lost.is_set():
            return
        log.warning("this replica has lost its place: %s", reason)
        self.lost.set()
        # `on_lost` ends the process; if it fails, this timer does.
        last_resort = threading.Timer(LAST_RESORT_SECONDS, self._exit_process)
        last_resort.daemon = True
        last_resort.start()
        self._on_lost()


@dataclass(frozen=True, slots=True)
class Departure:
    """Whether a replica has to leave: by a signal, by its row, or because its place is lost."""

    heartbeat: Heartbeat
    stop_requested: threading.Event

    def is_due(self) -> bool:
        """Whether the replica has to leave now."""
        requested = self.stop_requested.is_set() or not self.heartbeat.row.desired.deploy
        return requested or self.heartbeat.lost.is_set()
