"""A secondary's eye on its primary.

On the same host a primary whose process is gone is seen at once. One that is silent is seen when its
lease has not been renewed for the lease time, counted on this process' own monotonic clock between
looks that succeeded: nobody's wall clock matters, and a control store that does not answer makes
nobody look dead. A look comes every half heartbeat, and one when the lease time would be over: so a
primary is silent for the lease time and half a heartbeat at most before it is seen.

A secondary becomes the primary: the takeover, and what is told of it afterwards.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from ft_policies.errors import TransientError
from ft_policies.failover import DetectedBy, FailoverPolicy, PrimaryLook, TakeOver
from ft_policies.health import Process
from resources.clock import SYSTEM_CLOCK, Clock
from resources.control.records import Incident, Lease, ReplicaRow, ReplicaState, Slot
from resources.control.store import ControlStore
from resources.patience import patiently
from streaming.processes import process_state
from streaming.recovery_incidents import (
    RECOVERY,
    has_key,
    is_claimed,
    is_of_primary,
    is_waiting,
    overtake,
    primary_key,
)
from streaming.replica.heartbeat import Pulse
from streaming.sampling import Sampler

POLL_SECONDS = 0.05
AGAIN_SECONDS = 0.25

log = logging.getLogger(__name__)


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
        if patiently(
            lambda: self._was_handed_over(store), what="asking who was the primary before"
        ):
            return
        away_seconds = self.detect_seconds + SYSTEM_CLOCK.monotonic() - self.taken_monotonic
        seconds = 0.0 if self.goes_on else away_seconds
        sampler.once("t_detect_seconds", self.detect_seconds)
        sampler.once("recovery_seconds", seconds)
        patiently(lambda: self._open_incident(store, seconds), what="reporting the failover")

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


class Silence:
    """How long a lease has shown no sign of life."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._sign: tuple[int, float] | None = None
        self._since: float | None = None
        self.seconds = 0.0

    def look(self, read: Callable[[], Lease | None]) -> Lease | None:
        """Read the lease and note whether it has changed; a failed look begins anew."""
        asked = self._clock.monotonic()
        try:
            lease = read()
        except TransientError:
            self._since = None
            self.seconds = 0.0
            raise
        sign = None if lease is None else (lease.token, lease.renewed_at)
        if self._since is None or sign != self._sign:
            self._sign, self._since = sign, self._clock.monotonic()
            self.seconds = 0.0
        else:
            self.seconds = max(asked - self._since, 0.0)
        return lease


class PrimaryWatch(threading.Thread):
    """Looks at the primary until it has fallen, takes over at once, and wakes the replica then.

    Taking over is not left to the replica's own loop, which may be busy: with a restore, for example.
    """

    def __init__(
        self,
        store: ControlStore,
        stream: str,
        policy: FailoverPolicy,
        *,
        beat_seconds: float,
        promote: Callable[[Fallen], Promotion | None],
        wake: threading.Event,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(name="watch", daemon=True)
        self._store = store
        self._stream = stream
        self._policy = policy
        self._beat_seconds = beat_seconds
        self._promote = promote
        self._wake = wake
        self._clock = clock
        self._silence = Silence(clock)
        self._ended = threading.Event()
        self._looked_at = float("-inf")
        self._seen_gone = False
        self._primary: ReplicaRow | None = None
        self._lease: Lease | None = None
        self.promotion: Promotion | None = None

    def token(self) -> int:
        """The token of the lease as last seen."""
        lease = self._lease
        return 0 if lease is None else lease.token

    def run(self) -> None:
        """Look often at the process, and every half heartbeat at the lease."""
        while self.promotion is None and not self._ended.wait(POLL_SECONDS):
            try:
                self.look()
            except TransientError as error:
                log.warning("the primary cannot be watched: %s", error)
            except Exception:
                log.exception("the primary cannot be watched, for a reason that nobody thought of")

    def look(self) -> None:
        """Look once; what was seen before counts until the next look at the control store."""
        gone = process_state(self._primary) is Process.GONE
        now = self._clock.monotonic()
        if (gone and not self._seen_gone) or now - self._looked_at >= self._pause_seconds:
            self._looked_at, self._seen_gone = now, gone
            self._lease = self._silence.look(lambda: self._store.leases.get(self._stream))
            self._primary = self._store.replicas.live(self._stream, Slot.PRIMARY)
            process = process_state(self._primary)
            self._seen_gone = process is Process.GONE
            self._judge(process)

    def stop(self) -> None:
        """Look no longer."""
        self._ended.set()

    @property
    def _pause_seconds(self) -> float:
        """Between looks at the control store, the last of them when the lease time would be over.

        A primary that is gone and not replaced yet is urgent.
        """
        usual = self._beat_seconds / 2
        if self._seen_gone:
            return min(AGAIN_SECONDS, usual)
        left = self._policy.lease_seconds - self._silence.seconds
        return min(left, usual) if left > 0 else usual

    def _judge(self, process: Process) -> None:
        primary, lease = self._primary, self._lease
        look = PrimaryLook(
            id=None if primary is None else primary.id,
            process=process,
            holds_lease=primary is not None and lease is not None and lease.holder == primary.id,
            silent_seconds=self._silence.seconds,
        )
        decision = self._policy.decide(look)
        if isinstance(decision, TakeOver):
            fallen = Fallen(look.id, lease, decision.reason, decision.detected_by)
            self.promotion = self._promote(fallen)
            if self.promotion is not None:
                self._wake.set()
