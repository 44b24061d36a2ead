"""When to close the next epoch: the pace of a stream."""

from dataclasses import dataclass
from math import inf, isfinite
from typing import TypeAlias

from holdfast.ft_policies import quantities


@dataclass(frozen=True, slots=True)
class Close:
    """Close the epoch now with this many rows; with 0 it is an empty epoch."""

    rows: int
    reason: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to close yet."""

    reason: str


PaceDecision: TypeAlias = Close | Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Close an epoch when it is full, or old enough, or when the input has been silent for long.

    `rows` is also the limit of one epoch, so that the backlog after an outage is worked off
    in epochs of a size that fits.
    """

    seconds: float | None = None
    rows: int | None = None
    silence_seconds: float

    @property
    def epoch_seconds(self) -> float:
        """How long an epoch that does not fill stays open."""
        return self.silence_seconds if self.seconds is None else self.seconds

    def decide(self, *, waiting_rows: int, since_last_seconds: float | None) -> PaceDecision:
        """Decide by the rows that wait and the time since the last epoch was closed."""
        if self.rows is not None and waiting_rows >= self.rows:
            return Close(self.rows, f"{waiting_rows} rows wait, {self.rows} fill an epoch")
        if since_last_seconds is None:
            return Close(waiting_rows, "the first epoch")
        if waiting_rows == 0:
            if since_last_seconds >= self.silence_seconds:
                return Close(0, f"silent for {quantities.seconds(since_last_seconds)}")
            return Wait("no input")
        if self.seconds is not None and since_last_seconds >= self.seconds:
            return Close(waiting_rows, f"open for {quantities.seconds(since_last_seconds)}")
        if self.seconds is None and since_last_seconds >= self.silence_seconds:
            return Close(waiting_rows, f"not full after {quantities.seconds(since_last_seconds)}")
        return Wait(f"{waiting_rows} rows wait")


def skip_before(
    *,
    now: float,
    since_last_seconds: float | None,
    takes_over: bool,
    recovery_seconds: float,
    epoch_seconds: float,
) -> float | None:
    """The time before which input is skipped, where the guarantee is `gap`; `None` if none is.

    A replica that takes over later than the objective allows does not work off the outage: it begins with input
    that is as old as the objective. The loss may have happened just before the next epoch was due, so the time
    that an epoch stays open is added. A stream that is slow, or a clock that was set back, loses nothing.
    """
    if not takes_over or since_last_seconds is None or not isfinite(since_last_seconds):
        return None
    late = since_last_seconds > recovery_seconds + epoch_seconds
    return now - recovery_seconds if late else None


def since_last_epoch(*, age_seconds: float, seen_seconds: float) -> float:
    """The seconds since the last epoch was closed, whatever happens to the control store's clock.

    `age_seconds` is its age by that clock; a negative one means that the clock was set back, so the next epoch
    is due. `seen_seconds` is how long the proposer knows of it, by its own monotonic clock.
    """
    return inf if age_seconds < 0 else max(age_seconds, seen_seconds)
