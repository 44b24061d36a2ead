"""What a driver decides by itself: whether to restart a failed query, and when to yield a busy host."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from holdfast.ft_policies import quantities


class FailureKind(StrEnum):
    """Whether a retry can help, as far as the error shows."""

    TRANSIENT = "transient"
    PERMANENT = "permanent"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Start the query again after a pause."""

    after_seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """End the replica as failed."""

    reason: str


FailureDecision: TypeAlias = TryAgain | GiveUp


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFailurePolicy:
    """Retry a transient error without limit, an unknown one a few times, a permanent one never."""

    unknown_tries: int = 3
    first_pause_seconds: float = 0.5
    longest_pause_seconds: float = 15.0

    def decide(self, kind: FailureKind, *, failures_in_a_row: int) -> FailureDecision:
        """Decide after a failure; `failures_in_a_row` includes it, and restarts with each epoch."""
        doublings = min(failures_in_a_row - 1, 10)
        pause = min(self.first_pause_seconds * 2**doublings, self.longest_pause_seconds)
        match kind:
            case FailureKind.PERMANENT:
                return GiveUp("the error is permanent")
            case FailureKind.TRANSIENT:
                return TryAgain(pause, f"attempt {failures_in_a_row} after a transient error")
            case FailureKind.UNKNOWN if failures_in_a_row < self.unknown_tries:
                return TryAgain(pause, f"attempt {failures_in_a_row} of {self.unknown_tries}")
            case FailureKind.UNKNOWN:
                return GiveUp(f"failed {failures_in_a_row} times on the same epoch")


@dataclass(frozen=True, slots=True)
class Pause:
    """Stop processing, and follow the primary by syncs."""

    reason: str


@dataclass(frozen=True, slots=True)
class Resume:
    reason: str


SpareCapacityDecision: TypeAlias = Pause | Resume | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpareCapacityPolicy:
    """How busy the host and how long the queue may be before a secondary stops processing."""

    pause_above: float
    resume_below: float
    after_seconds: float
    queue_epochs: int

    def decide(
        self,
        *,
        paused: bool,
        host_load: float,
        busy_seconds: float,
        calm_seconds: float,
        queued_epochs: int,
    ) -> SpareCapacityDecision:
        """Decide whether to change; `None` means no change.

        `busy_seconds` is for how long the load (0 to 1) has been at `pause_above` or more,
        `calm_seconds` for how long below `resume_below`.
        """
        if paused:
            return self._resume(host_load, calm_seconds, queued_epochs)
        if queued_epochs > self.queue_epochs:
            return Pause(f"{queued_epochs} epochs are queued, more than {self.queue_epochs}")
        if host_load >= self.pause_above and busy_seconds >= self.after_seconds:
            return Pause(
                f"the host has been busy ({host_load:.0%}) for {quantities.seconds(busy_seconds)}"
            )
        return None

    def _resume(self, host_load: float, calm_seconds: float, queued_epochs: int) -> Resume | None:
        """Resume on a calm host, unless the queue would have it paused again at once."""
        calm = host_load < self.resume_below and calm_seconds >= self.after_seconds
        if not calm or queued_epochs > self.queue_epochs:
            return None
        return Resume(
            f"the host has been calm ({host_load:.0%}) for {quantities.seconds(calm_seconds)}"
        )
