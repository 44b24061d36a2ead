"""What a replica does when its query has failed: try again on the same checkpoint, or give up."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class FailureKind(StrEnum):
    """Whether trying again can help, as far as the error tells."""

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
    """Retry a transient error for ever, an unknown one a few times, a permanent one never."""

    unknown_tries: int = 3
    first_pause_seconds: float = 0.5
    longest_pause_seconds: float = 15.0

    def decide(self, kind: FailureKind, *, failures_in_a_row: int) -> FailureDecision:
        """Judge a failure; `failures_in_a_row` includes it, and starts again with each epoch."""
        doublings = min(failures_in_a_row - 1, 10)
        pause = min(self.first_pause_seconds * 2**doublings, self.longest_pause_seconds)
        match kind:
            case FailureKind.PERMANENT:
                return GiveUp("the error is permanent")
            case FailureKind.TRANSIENT:
                return TryAgain(pause, f"attempt {failures_in_a_row} after an error that may pass")
            case FailureKind.UNKNOWN if failures_in_a_row < self.unknown_tries:
                return TryAgain(pause, f"attempt {failures_in_a_row} of {self.unknown_tries}")
            case FailureKind.UNKNOWN:
                return GiveUp(f"failed {failures_in_a_row} times on the same epoch")
