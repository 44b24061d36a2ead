"""The lease of a stream, as one replica knows it: its holder, its token, and when it was last renewed.

The heartbeat takes, renews and releases it. The failover of a secondary observes the primary's, and takes it over.
They share one object, so that every write of a replica carries the same token.
"""

import threading
from typing import Protocol

from holdfast.ft_policies.errors import TransientError
from holdfast.resources.clock import SYSTEM_CLOCK, Clock
from holdfast.resources.control_store.records import Lease
from holdfast.resources.control_store.store import ControlStore


class WriteToken(Protocol):
    """The token that a write carries: that of the lease it was made under."""

    @property
    def token(self) -> int: ...


class StreamLease:
    """`held` is the lease while this replica has it, `observed` the one that was last read."""

    def __init__(
        self,
        store: ControlStore,
        stream: str,
        replica: str,
        *,
        ttl_seconds: float,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._store = store
        self._clock = clock
        self.ttl_seconds = ttl_seconds
        self._lock = threading.Lock()
        self._own_token = 0
        self._held_since = 0.0
        self.stream = stream
        self.replica = replica
        self.held: Lease | None = None
        self.observed: Lease | None = None

    @property
    def token(self) -> int:
        """The token of the lease that this replica holds or held: its late writes are still its own.

        Before its first lease, the token of the lease as last observed.
        """
        observed = self.observed
        return self._own_token or (0 if observed is None else observed.token)

    def take(self) -> bool:
        """Try to become the holder; `False` while another replica holds the lease."""
        lease = self._store.leases.take(self.stream, self.replica, self.ttl_seconds)
        if lease is not None:
            self._hold(lease)
        return lease is not None

    def take_over(
        self, *, primary: str | None, observed: Lease | None, reason: str
    ) -> Lease | None:
        """Take lease and slot of a failed primary; `None` if they have changed since they were observed."""
        try:
            lease = self._store.takeovers.take(
                self.stream,
                self.replica,
                primary=primary,
                observed=observed,
                ttl_seconds=self.ttl_seconds,
                reason=reason,
            )
        except TransientError:
            lease = None
        lease = lease or self._read_own()
        if lease is not None:
            self._hold(lease)
        return lease

    def renew(self) -> bool:
        """Renew the lease if this replica holds it; `False` if another replica has taken it."""
        with self._lock:
            if self.held is None:
                return True
            held_seconds = self._clock.monotonic() - self._held_since
            self.held = self._store.leases.renew(
                self.held, self.ttl_seconds, held_seconds=held_seconds
            )
            return self.held is not None

    def release(self) -> None:
        """Release the lease, so that a successor need not wait for its expiry."""
        with self._lock:
            lease, self.held = self.held, None
        if lease is not None:
            self._store.leases.release(lease)

    def observe(self) -> Lease | None:
        """Read the lease from the control store; on an error the last observation stays."""
        self.observed = self._store.leases.get(self.stream)
        return self.observed

    def _hold(self, lease: Lease) -> None:
        with self._lock:
            if lease.token != self._own_token:
                self._held_since = self._clock.monotonic()
            self.held, self._own_token = lease, lease.token

    def _read_own(self) -> Lease | None:
        """Read the lease again: it may have been taken, and only the answer lost."""
        try:
            lease = self._store.leases.get(self.stream)
        except TransientError:
            return None
        return lease if lease is not None and lease.holder == self.replica else None
