"""The health of a stream: what its replicas report, and what is observed of them from outside."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import TypeAlias

from holdfast.ft_policies import quantities
from holdfast.ft_policies.timings import Timings

MAX_DOUBLINGS = 6
CLOCK_SLACK_SECONDS = 1.0
"""An event that is further in the future shows that the clock of the control store was set back."""


class Process(StrEnum):
    """The process of a replica, as the operating system reports it."""

    RUNNING = "running"
    GONE = "gone"
    UNKNOWN = "unknown"  # on another host, or not started yet


class Health(StrEnum):
    """The health of a stream or of a secondary."""

    STOPPED = "stopped"
    STOPPING = "stopping"
    STARTING = "starting"
    REPLAYING = "replaying"
    HEALTHY = "healthy"
    LAGGING = "lagging"
    WAITING = "waiting"
    MISSING = "missing"
    DEAD = "dead"
    SILENT = "silent"
    DISPUTED = "disputed"
    STUCK = "stuck"
    FAILED = "failed"

    @property
    def failed(self) -> bool:
        """Whether the stream needs a recovery."""
        return self in _FAILED

    @property
    def is_running(self) -> bool:
        """Whether the primary has caught up and commits, also if it is too slow for its input."""
        return self in (Health.HEALTHY, Health.LAGGING)

    @property
    def is_alarming(self) -> bool:
        """Whether the stream does not do what it should: it needs a recovery, or is too slow for its input."""
        return self.failed or self is Health.LAGGING

    @property
    def needs_second_look(self) -> bool:
        """Whether one observation proves nothing: a clock that was set looks the same for a moment."""
        return self in (Health.SILENT, Health.DISPUTED)


_FAILED = frozenset(
    {
        Health.MISSING,
        Health.DEAD,
        Health.SILENT,
        Health.DISPUTED,
        Health.STUCK,
        Health.FAILED,
    }
)
FAILURES_BEFORE_GIVING_UP = 3

LAG_MEMORY_SECONDS = 600.0
"""A stream that has come nearer all this time, however slowly, does not lag any more."""
LAG_WINDOW_SECONDS = 120.0
LAG_SPAN_SECONDS = 60.0
FEWEST_LAGS = 4  # of a stream with long epochs, there are not more in the window
FALLEN_SECONDS = 1.0
FALLEN_ROWS_SHARE = 0.01
CLEARLY_FALLEN_SHARE = 0.05
LAG_SLACK_SECONDS = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LagReading:
    """How far a stream was behind its input; `rows` is `None` if their number is unknown."""

    at: float
    seconds: float
    rows: float | None


def compute_tolerated_lag(*, arrival_seconds: float, epoch_seconds: float) -> float:
    """The lag of a stream that keeps up: until its input counts as arrived, and two epochs; with some slack."""
    return LAG_SLACK_SECONDS + arrival_seconds + 2.0 * epoch_seconds


def is_lagging(readings: Sequence[LagReading], tolerated_seconds: float) -> bool:
    """Whether the stream is too far behind its input and does not come nearer; `readings` are oldest first.

    It begins to lag in a window in which it came no nearer, and ends in one in which it came clearly nearer or
    has caught up; a window in between changes nothing, so that noise does not either.
    """
    for end in range(len(readings), 0, -1):
        window = _window(readings[:end])
        if window is None:
            return False
        if window.lowest_seconds <= tolerated_seconds or window.fell(
            seconds=max(FALLEN_SECONDS, CLEARLY_FALLEN_SHARE * window.lowest_seconds),
            rows_share=CLEARLY_FALLEN_SHARE,
        ):
            return False
        if not window.fell(seconds=FALLEN_SECONDS, rows_share=FALLEN_ROWS_SHARE):
            return True
    return False


@dataclass(frozen=True, slots=True)
class _Window:
    """The readings of a window, in two halves.

    Their lowest lags are compared: one slow epoch raises some readings, not the lowest. A backlog that is
    worked off has fewer rows each time, or younger ones.
    """

    before: Sequence[LagReading]
    recent: Sequence[LagReading]

    @property
    def lowest_seconds(self) -> float:
        return min(reading.seconds for reading in self.recent)

    def fell(self, *, seconds: float, rows_share: float) -> bool:
        """Whether the lag fell by more than this, in seconds or in rows."""
        if self.lowest_seconds < min(reading.seconds for reading in self.before) - seconds:
            return True
        rows_before, rows = _lowest_rows(self.before), _lowest_rows(self.recent)
        if rows_before is None or rows is None:
            return False
        return rows < rows_before * (1.0 - rows_share)


def _window(readings: Sequence[LagReading]) -> _Window | None:
    """The window that ends with the last reading: a few readings at least; `None` if they tell too little."""
    since = readings[-1].at - LAG_WINDOW_SECONDS
    first = bisect_left(readings, since, key=lambda reading: reading.at)
    latest = readings[max(min(first, len(readings) - FEWEST_LAGS), 0) :]
    if len(latest) < FEWEST_LAGS or latest[-1].at - latest[0].at < LAG_SPAN_SECONDS:
        return None
    half = len(latest) // 2
    return _Window(latest[:half], latest[half:])


def _lowest_rows(readings: Sequence[LagReading]) -> float | None:
    rows = [reading.rows for reading in readings if reading.rows is not None]
    return min(rows, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimaryFacts:
    """The live primary of a stream: what it reports, and what is observed of it from outside.

    Ages are in seconds on the control store's clock; `None` means that it never happened.
    """

    id: str
    process: Process
    registered_age_seconds: float
    heartbeat_age_seconds: float | None
    progress_age_seconds: float | None
    processing: bool
    caught_up: bool
    given_up_before: int = 0
    input_away: bool = False
    lag: Sequence[LagReading] = ()
    tolerated_lag_seconds: float = inf


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondaryFacts:
    """The live secondary of a stream: what it reports, and what is observed of it from outside.

    `quiet_seconds` counts since it last finished an epoch, was started, or was given other switches,
    whichever came last.
    """

    id: str
    process: Process
    registered_age_seconds: float
    heartbeat_age_seconds: float | None
    quiet_seconds: float
    leaving: bool
    deployed: bool
    processing: bool
    paused: bool


@dataclass(frozen=True, slots=True)
class HealthVerdict:
    """A stream's or a secondary's health and the sentence that explains it."""

    health: Health
    reason: str


@dataclass(frozen=True, slots=True)
class HealthPolicy:
    """How long a replica may be silent, slow or starting before it counts as failed."""

    timings: Timings

    def judge(
        self,
        *,
        wanted: bool,
        primary: PrimaryFacts | None,
        failures_in_a_row: int = 0,
        last_failure: str = "",
    ) -> HealthVerdict:
        """Judge the stream; one whose primaries failed too often in a row is given up.

        Each primary that was given up at the same epoch doubles the time that the next one gets: the
        input of an epoch is decided once, so a slow epoch is slow for every primary.
        """
        if primary is None:
            if wanted and failures_in_a_row >= FAILURES_BEFORE_GIVING_UP:
                return HealthVerdict(
                    Health.FAILED, f"{failures_in_a_row} replicas failed in a row: {last_failure}"
                )
            if wanted:
                return HealthVerdict(Health.MISSING, "the stream should run and has no primary")
            return HealthVerdict(Health.STOPPED, "stopped by request")
        if primary.process is Process.GONE:
            return HealthVerdict(Health.DEAD, f"the process of {primary.id} is gone")
        if not wanted:
            return HealthVerdict(Health.STOPPING, f"{primary.id} was asked to stop")
        silent = self._silent(primary, self.timings.lease_seconds)
        return silent or _away(primary) or self._judge_progress(primary) or _progress(primary)

    def judge_secondary(self, secondary: SecondaryFacts) -> HealthVerdict:
        name = secondary.id
        if secondary.process is Process.GONE:
            return HealthVerdict(Health.DEAD, f"the process of {name} is gone")
        silent = self._silent(secondary, self.timings.secondary_lease_seconds)
        if silent is not None:
            return silent
        if secondary.leaving:
            return HealthVerdict(Health.STOPPING, f"{name} was asked to leave")
        if not secondary.deployed:
            return self._starting_secondary(secondary)
        if secondary.paused:
            return HealthVerdict(Health.HEALTHY, f"{name} has paused: the host is busy")
        patience_seconds = self.timings.progress_within_seconds
        if secondary.processing and secondary.quiet_seconds > patience_seconds:
            quiet = secondary.quiet_seconds
            return HealthVerdict(
                Health.STUCK, f"{name} has finished no epoch for {quantities.seconds(quiet)}"
            )
        return HealthVerdict(Health.HEALTHY, f"{name} is standing by")

    def _starting_secondary(self, secondary: SecondaryFacts) -> HealthVerdict:
        age = secondary.registered_age_seconds
        if age > self.timings.start_within_seconds:
            return HealthVerdict(
                Health.STUCK, f"{secondary.id} is not up {quantities.seconds(age)} after its start"
            )
        return HealthVerdict(Health.STARTING, f"{secondary.id} is starting")

    def _silent(
        self, replica: PrimaryFacts | SecondaryFacts, patience_seconds: float
    ) -> HealthVerdict | None:
        """Judge the heartbeats; before the first one, a running process has as long as any start."""
        age = replica.heartbeat_age_seconds
        if age is None:
            launching = replica.registered_age_seconds <= self.timings.launch_within_seconds
            if launching or replica.process is Process.RUNNING:
                return None
            return HealthVerdict(
                Health.SILENT,
                f"{replica.id} was registered {quantities.seconds(replica.registered_age_seconds)} ago, no heartbeat yet",
            )
        if -CLOCK_SLACK_SECONDS <= age <= patience_seconds:
            return None
        if age < 0:
            reason = f"{replica.id} has sent no heartbeat since the control store's clock was set back by {quantities.seconds(-age)}"
        else:
            reason = f"{replica.id} has sent no heartbeat for {quantities.seconds(age)}"
        if replica.process is Process.RUNNING:
            return HealthVerdict(Health.DISPUTED, f"{reason}, but its process is running")
        return HealthVerdict(Health.SILENT, reason)

    def _judge_progress(self, primary: PrimaryFacts) -> HealthVerdict | None:
        patience = 2.0 ** min(primary.given_up_before, MAX_DOUBLINGS)
        if primary.progress_age_seconds is None:
            if primary.registered_age_seconds <= self.timings.start_within_seconds * patience:
                return None
            return HealthVerdict(
                Health.STUCK,
                f"{primary.id} has processed nothing {quantities.seconds(primary.registered_age_seconds)} after its start",
            )
        if primary.progress_age_seconds <= self.timings.stuck_after_seconds * patience:
            return None
        return HealthVerdict(
            Health.STUCK,
            f"{primary.id} has finished no epoch for {quantities.seconds(primary.progress_age_seconds)}",
        )


def _away(primary: PrimaryFacts) -> HealthVerdict | None:
    """A primary without its input is not stuck: another one would wait as well."""
    if not primary.input_away:
        return None
    return HealthVerdict(Health.WAITING, f"{primary.id} is waiting for its input: see its log")


def _progress(primary: PrimaryFacts) -> HealthVerdict:
    if primary.progress_age_seconds is None:
        return HealthVerdict(Health.STARTING, f"{primary.id} is starting")
    if primary.progress_age_seconds < -CLOCK_SLACK_SECONDS:
        return HealthVerdict(
            Health.WAITING,
            f"{primary.id} has finished no epoch since the control store's clock was set back by "
            f"{quantities.seconds(-primary.progress_age_seconds)}",
        )
    if not primary.processing:
        return HealthVerdict(
            Health.WAITING, f"{primary.id} is waiting to restart its query: see its log"
        )
    if not primary.caught_up:
        return HealthVerdict(
            Health.REPLAYING, f"{primary.id} is replaying the epochs that it missed"
        )
    if is_lagging(primary.lag, primary.tolerated_lag_seconds):
        return HealthVerdict(
            Health.LAGGING,
            f"{primary.id} is {quantities.seconds(primary.lag[-1].seconds)} behind its input and does not catch up",
        )
    return HealthVerdict(
        Health.HEALTHY,
        f"{primary.id} finished an epoch {quantities.seconds(primary.progress_age_seconds)} ago",
    )


class DetectedBy(StrEnum):
    """How a secondary detected the failure."""

    ABSENCE = "absence"
    PROCESS = "process"
    LEASE = "lease"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimaryView:
    """The primary as its secondary sees it; `id` is `None` if no primary is live."""

    id: str | None
    process: Process
    holds_lease: bool
    silent_seconds: float


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Become the primary."""

    reason: str
    detected_by: DetectedBy


@dataclass(frozen=True, slots=True)
class Stay:
    """Remain the secondary."""

    reason: str


FailoverDecision: TypeAlias = TakeOver | Stay


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverPolicy:
    """How long a primary may be silent before its secondary takes over."""

    lease_seconds: float

    def decide(self, primary: PrimaryView) -> FailoverDecision:
        """Take over from a primary that is gone or silent; wait for one that is starting."""
        if primary.id is None:
            return TakeOver("the stream has no primary", DetectedBy.ABSENCE)
        if primary.process is Process.GONE:
            return TakeOver(f"the process of {primary.id} is gone", DetectedBy.PROCESS)
        if not primary.holds_lease:
            return Stay(f"{primary.id} has not taken the lease yet")
        if primary.silent_seconds >= self.lease_seconds:
            return TakeOver(
                f"{primary.id} has not renewed its lease for {quantities.seconds(primary.silent_seconds)}",
                DetectedBy.LEASE,
            )
        return Stay(
            f"{primary.id} renewed its lease {quantities.seconds(primary.silent_seconds)} ago"
        )
