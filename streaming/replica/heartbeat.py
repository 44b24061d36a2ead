"""The pulse of a replica: it renews the lease, says what is on, and hears what is wanted.

It is a thread of its own and does nothing else, so that neither a long batch nor a slow object
store looks like a dead replica. A control store that does not answer for a while changes nothing:
the lease is there for speed, not for safety. Only a lease that somebody else has ends the replica.
"""

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from ft_policies.errors import TransientError
from ft_policies.tiers import OFF, Switches
from resources.control.records import Lease, ReplicaRow, ReplicaState
from resources.control.store import ControlStore

EXIT_LOST = 3
LAST_RESORT_SECONDS = 15.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """What a replica says of itself with each beat."""

    state: ReplicaState = ReplicaState.STARTING
    observed: Switches = OFF
    observed_generation: int = 0
    snapshot_served: int = 0
    epoch: int | None = None


class Pulse(threading.Thread):
    """Beats until it is stopped or the replica has lost its place."""

    def __init__(
        self,
        store: ControlStore,
        row: ReplicaRow,
        *,
        beat_seconds: float,
        lease_seconds: float,
        on_lost: Callable[[], None],
    ) -> None:
        super().__init__(name="pulse", daemon=True)
        self._store = store
        self._beat_seconds = beat_seconds
        self._lease_seconds = lease_seconds
        self._on_lost = on_lost
        self._ended = threading.Event()
        self._due = threading.Event()
        self._lock = threading.Lock()
        self._vitals = Vitals()
        self.row = row
        self.lease: Lease | None = None
        self._token = 0
        self.lost = threading.Event()

    def say(self, **changes: object) -> None:
        """Change what the next beat tells; another epoch is not kept until then: somebody may wait for it."""
        with self._lock:
            before = self._vitals
            self._vitals = replace(before, **changes)  # type: ignore[arg-type]
            if self._vitals.epoch != before.epoch:
                self._due.set()

    def token(self) -> int:
        """The token of the lease that it has, or had: what it still writes is its own."""
        return self._token

    def take_lease(self) -> bool:
        """Try to become primary."""
        lease = self._store.leases.take(self.row.stream, self.row.id, self._lease_seconds)
        if lease is not None:
            self.adopt(lease)
        return lease is not None

    def adopt(self, lease: Lease) -> None:
        """Hold, from now on, a lease that was taken."""
        with self._lock:
            self.lease, self._token = lease, lease.token

    def release_lease(self) -> None:
        """Give the lease back, so that nobody has to wait for its end."""
        with self._lock:
            lease, self.lease = self.lease, None
        if lease is not None:
            self._store.leases.release(lease)

    def run(self) -> None:
        """Beat."""
        while True:
            self._due.wait(self._beat_seconds)
            self._due.clear()
            if self._ended.is_set():
                return
            try:
                self.beat()
            except TransientError as error:
                log.warning("a heartbeat failed, the next one may not: %s", error)
            except Exception as error:
                # A replica without a pulse is replaced, so it must not go on beside its successor.
                log.exception("no heartbeat is possible any more")
                self._lose(str(error))
            if self.lost.is_set():
                return

    def beat(self) -> None:
        """Renew the lease, report, and take note of what is wanted."""
        with self._lock:
            vitals, lease = self._vitals, self.lease
            if lease is not None:
                self.lease = self._store.leases.renew(lease, self._lease_seconds)
        if lease is not None and self.lease is None:
            self._lose("the lease has another holder")
        self.row = self._store.replicas.heartbeat(
            self.row.id,
            state=vitals.state,
            observed=vitals.observed,
            observed_generation=vitals.observed_generation,
            snapshot_served=vitals.snapshot_served,
            epoch=vitals.epoch,
        )
        if self.row.state.ended:
            self._lose(self.row.reason)

    def stop(self) -> None:
        """Stop beating; the last beat is over when this returns."""
        self._ended.set()
        self._due.set()
        if self.is_alive() and threading.current_thread() is not self:
            self.join()

    def _lose(self, why: str) -> None:
        if self.lost.is_set():
            return
        log.warning("this replica has lost its place: %s", why)
        self.lost.set()
        # The main thread stops the query and leaves. If Spark does not let it, this does.
        last_resort = threading.Timer(LAST_RESORT_SECONDS, os._exit, args=(EXIT_LOST,))
        last_resort.daemon = True
        last_resort.start()
        self._on_lost()
