"""A secondary becomes the primary: the takeover, and what is told of it afterwards."""

from dataclasses import dataclass

from ft_policies.errors import TransientError
from ft_policies.failover import DetectedBy
from resources.clock import SYSTEM_CLOCK
from resources.control.records import Incident, Lease, ReplicaState, Slot
from resources.control.store import ControlStore
from resources.retry import retry_transient
from streaming.pulse import Pulse
from streaming.recovery_incidents import (
    RECOVERY,
    has_key,
    is_claimed,
    is_of_primary,
    is_waiting,
    overtake,
    primary_key,
)
from streaming.sampling import Sampler


@dataclass(frozen=True, slots=True)
class Fallen:
    """A primary that counts as failed, and the lease as it was last seen."""

    primary: str | None
    lease: Lease | None
    reason: str
    detected_by: DetectedBy


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """A takeover that has happened; a replica that was sending already `goes_on`: nobody missed anything."""

    stream: str
    replica: str
    fallen: Fallen
    token: int
    taken_at: float
    detect_seconds: float
    taken_monotonic: float
    goes_on: bool = False

    def level(self, store: ControlStore, sampler: Sampler) -> None:
        """Tell how long it took, and open the incident that restores redundancy.

        A place that was handed over in a migration is no failure, and the migration sees to the rest.
        """
        if retry_transient(
            lambda: self._was_handed_over(store), what="asking who was the primary before"
        ):
            return
        away_seconds = self.detect_seconds + SYSTEM_CLOCK.monotonic() - self.taken_monotonic
        seconds = 0.0 if self.goes_on else away_seconds
        sampler.once("t_detect_seconds", self.detect_seconds)
        sampler.once("recovery_seconds", seconds)
        retry_transient(lambda: self._open_incident(store, seconds), what="reporting the failover")

    def _was_handed_over(self, store: ControlStore) -> bool:
        rows = store.replicas.of(self.stream, live=False)
        before = [row for row in rows if row.slot is Slot.PRIMARY and row.ended_at is not None]
        last = max(before, key=lambda row: row.ended_at or 0.0, default=None)
        return last is not None and last.state is ReplicaState.HANDED_OVER

    def _open_incident(self, store: ControlStore, seconds: float) -> None:
        """Unless one will do: a sensor may have seen the primary fall, too."""
        key = primary_key(self.stream, self.fallen.primary or f"token-{self.token}")
        known = [one for one in store.incidents.of(self.stream) if one.kind == RECOVERY]
        at = store.now()
        if any(is_claimed(one, at=at) or self._is_of_this(one, key, at) for one in known):
            return
        closed = [overtake(store.incidents, one) for one in known]
        store.incidents.open_next(
            stream=self.stream,
            key=key,
            kind=RECOVERY,
            detail={
                "health": "taken_over",
                "reason": self.fallen.reason,
                "detected_by": self.fallen.detected_by.value,
                "primary": self.fallen.primary,
                "taken_over_by": self.replica,
                "t_detect_seconds": self.detect_seconds,
                "recovery_seconds": seconds,
            },
            since=max([self.taken_at, *closed]),
        )

    def _is_of_this(self, incident: Incident, key: str, at: float) -> bool:
        """A primary whose slot was empty already has an incident under its own name.

        One that waits, and was there when the primary still renewed its lease, is of an older loss.
        """
        lease = self.fallen.lease
        older = lease is not None and incident.opened_at < lease.renewed_at
        if older and is_waiting(incident, at=at):
            return False
        nameless = self.fallen.primary is None and is_of_primary(incident)
        return nameless or has_key(incident, key)


def promote(
    store: ControlStore, pulse: Pulse, fallen: Fallen, lease_seconds: float
) -> Promotion | None:
    """Take lease and slot of a primary that has fallen; `None` if that is not how it is any more."""
    row = pulse.row
    if not row.desired.deploy:
        return None  # it has been asked to leave
    try:
        lease = store.takeovers.take(
            row.stream,
            row.id,
            primary=fallen.primary,
            seen=fallen.lease,
            ttl_seconds=lease_seconds,
            reason=fallen.reason,
        )
    except TransientError:
        lease = None
    lease = lease or _already_mine(store, pulse)
    if lease is None:
        return None
    taken_monotonic = SYSTEM_CLOCK.monotonic()
    pulse.adopt(lease)
    silent = 0.0 if fallen.lease is None else lease.taken_at - fallen.lease.renewed_at
    return Promotion(
        stream=row.stream,
        replica=row.id,
        fallen=fallen,
        token=lease.token,
        taken_at=lease.taken_at,
        detect_seconds=max(silent, 0.0),
        taken_monotonic=taken_monotonic,
    )


def _already_mine(store: ControlStore, pulse: Pulse) -> Lease | None:
    """The lease, if it was taken and only the answer got lost."""
    try:
        lease = store.leases.get(pulse.row.stream)
    except TransientError:
        return None
    return lease if lease is not None and lease.holder == pulse.row.id else None
