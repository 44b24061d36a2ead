"""Failover: a secondary monitors its primary, and takes its place when it has failed.

On the same host a primary whose process is gone is noticed at once. A silent one is noticed when its
lease has not been renewed for the lease time, counted on this process' own monotonic clock between
reads that succeeded, and only while this replica's own heartbeats are written: wall clocks do not matter, and while the
control store is unavailable, locked or read-only no primary counts as dead. The lease is read every half heartbeat, and
when the lease time would be over: so a primary is silent for the lease time and half a heartbeat at most before it is
noticed, and for as long as a heartbeat of this replica takes.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from holdfast.ft_policies.errors import TransientError
from holdfast.ft_policies.health import DetectedBy, FailoverPolicy, PrimaryView, Process, TakeOver
from holdfast.resources.clock import SYSTEM_CLOCK, Clock
from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.records import (
    Incident,
    IncidentSubject,
    Lease,
    ReplicaRow,
    ReplicaState,
    Slot,
)
from holdfast.resources.control_store.recoveries import (
    TAKEN_OVER_BY,
    recovered_at,
    supersede,
)
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.control_store.tables.playbooks.incidents import (
    IncidentKey,
    is_claimed,
    is_waiting,
    matches,
)
from holdfast.resources.process import find_process_state
from holdfast.resources.retry import retry_transient
from holdfast.streaming.lease import StreamLease
from holdfast.streaming.metrics import Sampler
from holdfast.streaming.replica.heartbeat import Heartbeat

POLL_SECONDS = 0.05
GONE_POLL_SECONDS = 0.25

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FailedPrimary:
    """A primary that counts as failed, and the lease as it was last observed."""

    primary: str | None
    lease: Lease | None
    reason: str
    detected_by: DetectedBy


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """A takeover that has happened; if the replica `was_sending` already, its commits may have gone on."""

    stream: str
    replica: str
    failed: FailedPrimary
    token: int
    taken_at: float
    detect_seconds: float
    was_sending: bool = False

    @property
    def _lost_at(self) -> float:
        """The last sign of life of the primary."""
        return self.taken_at - self.detect_seconds

    def record_commit(self, store: ControlStore, sampler: Sampler, epoch: int) -> None:
        """Record how long the recovery took, and open the incident that restores redundancy.

        The recovery ended with the commit of `epoch`, the first new one; or, if this replica was sending, it is
        the longest pause between two commits since the primary's last sign of life.

        A place that was handed over in a migration is no failure, and the migration does the rest.
        """
        if retry_transient(
            lambda: self._was_handed_over(store), what="reading the previous primary"
        ):
            return
        seconds = retry_transient(
            lambda: self._recovery_seconds(store, epoch), what="reading the first new commit"
        )
        sampler.record(SampleName.DETECT_SECONDS, self.detect_seconds)
        if self.was_sending:
            sampler.record(SampleName.COMMIT_PAUSE_SECONDS, seconds)
        sampler.record(SampleName.RECOVERY_SECONDS, seconds)
        retry_transient(lambda: self._open_incident(store, seconds), what="reporting the failover")

    def _recovery_seconds(self, store: ControlStore, epoch: int) -> float:
        before = store.ledger.last_up_to(self.stream, self._lost_at)
        first = epoch if not self.was_sending else 0 if before is None else before.epoch + 1
        commits = [entry.committed_at for entry in store.ledger.between(self.stream, first, epoch)]
        times = [self._lost_at, *(commits or [store.now()])]
        return max(max(later - at, 0.0) for at, later in pairwise(times))

    def _last_primary(self, store: ControlStore) -> ReplicaRow | None:
        rows = store.replicas.of(self.stream, live=False)
        before = [row for row in rows if row.slot is Slot.PRIMARY and row.ended_at is not None]
        return max(before, key=lambda row: row.ended_at or 0.0, default=None)

    def _was_handed_over(self, store: ControlStore) -> bool:
        last = self._last_primary(store)
        return last is not None and last.state is ReplicaState.HANDED_OVER

    def _open_incident(self, store: ControlStore, seconds: float) -> None:
        """Open the incident, unless a sensor has opened one for the same failure.

        A run that is still at work on an older failure closes that one itself, and goes on with this one.
        """
        primary, last = self.failed.primary, self._last_primary(store)
        key = IncidentKey(
            stream=self.stream,
            subject=IncidentSubject.PRIMARY,
            replica=primary or (None if last is None else last.id),
            token=self.token if primary is None else None,
        )
        recoveries = [
            row for row in store.incidents.of(self.stream) if row.kind == IncidentKind.RECOVERY
        ]
        at = store.now()
        if any(self._is_of_this_loss(store, row, key, at) for row in recoveries):
            return
        unclaimed = [row for row in recoveries if not is_claimed(row, at=at)]
        closed = [supersede(store, row, at=self._lost_at) for row in unclaimed]
        store.incidents.open_recovery(
            key,
            detail={
                "health": "taken_over",
                "reason": self.failed.reason,
                "detected_by": self.failed.detected_by.value,
                "primary": self.failed.primary,
                TAKEN_OVER_BY: self.replica,
                SampleName.DETECT_SECONDS: self.detect_seconds,
                SampleName.RECOVERY_SECONDS: seconds,
            },
            since=max([self.taken_at, *closed]),
        )

    def _is_of_this_loss(
        self, store: ControlStore, incident: Incident, key: IncidentKey, at: float
    ) -> bool:
        """Whether an incident is about this loss, or about one from which the stream had not recovered before.

        An incident that waits and was opened while the primary still renewed its lease is about an older loss.
        """
        lease = self.failed.lease
        older = lease is not None and incident.opened_at < lease.renewed_at
        if older and is_waiting(incident, at=at):
            return False
        if matches(incident, key):
            return True
        back_at = recovered_at(store, incident)
        unrecovered = back_at is None or back_at > self._lost_at
        return incident.subject is IncidentSubject.PRIMARY and unrecovered


@dataclass(frozen=True, slots=True)
class Takeover:
    """How this replica takes the place of a failed primary: lease and slot, in one step."""

    heartbeat: Heartbeat

    def attempt(self, failed: FailedPrimary) -> Promotion | None:
        """Take over; `None` if this replica has to leave, or lease or slot have changed since they were observed."""
        lease = self.heartbeat.lease
        if not self.heartbeat.row.desired.deploy:
            return None
        taken = lease.take_over(primary=failed.primary, observed=failed.lease, reason=failed.reason)
        if taken is None:
            return None
        silent_seconds = 0.0 if failed.lease is None else taken.taken_at - failed.lease.renewed_at
        return Promotion(
            stream=lease.stream,
            replica=lease.replica,
            failed=failed,
            token=taken.token,
            taken_at=taken.taken_at,
            detect_seconds=max(silent_seconds, 0.0),
        )


class LeaseSilence:
    """How long a lease has not been renewed."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._sign: tuple[int, float] | None = None
        self._since: float | None = None
        self._written_before = 0.0
        self.observed_seconds = 0.0
        self.seconds = 0.0

    def look(self, read: Callable[[], Lease | None], *, written_seconds: float) -> Lease | None:
        """Read the lease and update `seconds`; after a failed read the count starts again at 0.

        What counts is `observed_seconds`, between reads that saw the same, but not more than the replica was able to
        write in that time itself: a lock or a read-only server silences all primaries, and hides no lease from readers.
        """
        began = self._clock.monotonic()
        try:
            lease = read()
        except TransientError:
            self._since = None
            self.observed_seconds = self.seconds = 0.0
            raise
        sign = None if lease is None else (lease.token, lease.renewed_at)
        if self._since is None or sign != self._sign:
            self._sign, self._since = sign, self._clock.monotonic()
            self._written_before = written_seconds
            self.observed_seconds = self.seconds = 0.0
        else:
            self.observed_seconds = max(began - self._since, 0.0)
            self.seconds = min(self.observed_seconds, written_seconds - self._written_before)
        return lease


class PrimaryMonitor(threading.Thread):
    """Watches the primary until it has failed, takes over at once, and then wakes the replica.

    The replica's own loop does not take over, because it may be busy: with a restore, for example.
    """

    def __init__(
        self,
        store: ControlStore,
        lease: StreamLease,
        policy: FailoverPolicy,
        takeover: Takeover,
        *,
        beat_seconds: float,
        wake: threading.Event,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(name="monitor", daemon=True)
        self._store = store
        self._lease = lease
        self._policy = policy
        self._takeover = takeover
        self._beat_seconds = beat_seconds
        self._wake = wake
        self._clock = clock
        self._silence = LeaseSilence(clock)
        self._ended = threading.Event()
        self._looked_at = float("-inf")
        self._beat_requested_at: float | None = None
        self._was_gone = False
        self._primary: ReplicaRow | None = None
        self.promotion: Promotion | None = None

    def run(self) -> None:
        """Check the process often, and the lease every half heartbeat."""
        while self.promotion is None and not self._ended.wait(POLL_SECONDS):
            try:
                self.look()
            except TransientError as error:
                log.warning("primary not monitored: %s", error)
            except Exception:
                log.exception("primary not monitored: unexpected error")

    def look(self) -> None:
        """Look once; the last observation counts until the control store is read again."""
        gone = find_process_state(self._primary) is Process.GONE
        now = self._clock.monotonic()
        is_due = now - self._looked_at >= self._pause_seconds
        if is_due or self._has_beaten_as_requested() or (gone and not self._was_gone):
            self._looked_at, self._was_gone = now, gone
            self._beat_requested_at = None
            written_seconds = self._takeover.heartbeat.written_seconds
            self._silence.look(self._lease.observe, written_seconds=written_seconds)
            self._primary = self._store.replicas.live(self._lease.stream, Slot.PRIMARY)
            process = find_process_state(self._primary)
            self._was_gone = process is Process.GONE
            self._decide(process)
            if is_due:
                self._request_beat()

    def stop(self) -> None:
        self._ended.set()

    @property
    def _pause_seconds(self) -> float:
        """The pause between reads of the control store; one read comes when the lease time would be over.

        While the primary's process is gone and no replica has replaced it, reads come often.
        """
        usual = self._beat_seconds / 2
        if self._was_gone:
            return min(GONE_POLL_SECONDS, usual)
        left = self._policy.lease_seconds - self._silence.observed_seconds
        return min(left, usual) if left > 0 else usual

    def _request_beat(self) -> None:
        """Request a heartbeat of this replica if only that is missing for a takeover."""
        silence, lease_seconds = self._silence, self._policy.lease_seconds
        if self.promotion is None and silence.seconds < lease_seconds <= silence.observed_seconds:
            self._beat_requested_at = self._clock.monotonic()
            self._takeover.heartbeat.beat_soon()

    def _has_beaten_as_requested(self) -> bool:
        beat_at, requested_at = self._takeover.heartbeat.last_beat_at, self._beat_requested_at
        return requested_at is not None and beat_at is not None and beat_at >= requested_at

    def _decide(self, process: Process) -> None:
        primary, lease = self._primary, self._lease.observed
        look = PrimaryView(
            id=None if primary is None else primary.id,
            process=process,
            holds_lease=primary is not None and lease is not None and lease.holder == primary.id,
            silent_seconds=self._silence.seconds,
        )
        decision = self._policy.decide(look)
        if isinstance(decision, TakeOver):
            failed = FailedPrimary(look.id, lease, decision.reason, decision.detected_by)
            self.promotion = self._takeover.attempt(failed)
            if self.promotion is not None:
                self._wake.set()
