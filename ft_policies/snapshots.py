"""When to ship a snapshot (every N epochs, T seconds or B bytes, whichever comes first), and how long to keep it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from holdfast.ft_policies import quantities
from holdfast.ft_policies.errors import PermanentError


@dataclass(frozen=True, slots=True)
class Ship:
    """Ship a snapshot now."""

    reason: str


@dataclass(frozen=True, slots=True)
class Hold:
    """Ship nothing yet."""

    reason: str


CheckpointDecision: TypeAlias = Ship | Hold


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPolicy:
    """Ship when the first of the limits is reached; a limit that is `None` never is."""

    epochs: int | None = None
    seconds: float | None = None
    bytes: int | None = None

    def __post_init__(self) -> None:
        limits = (self.epochs, self.seconds, self.bytes)
        if all(limit is None for limit in limits):
            raise PermanentError(
                "a checkpoint policy needs at least one of epochs, seconds and bytes",
                hint="set one of them, for example epochs: 10",
            )
        if any(limit is not None and limit <= 0 for limit in limits):
            raise PermanentError(
                f"the limits of a checkpoint policy must be positive: {self}",
                hint="leave out a limit to switch it off",
            )

    def decide(
        self, *, epochs_since: int, seconds_since: float, bytes_since: int
    ) -> CheckpointDecision:
        """Decide by what has happened since the last snapshot."""
        if epochs_since == 0:
            return Hold("no epoch has been committed since the last snapshot")
        if self.epochs is not None and epochs_since >= self.epochs:
            return Ship(
                f"{epochs_since} epochs since the last snapshot, the limit is {self.epochs}"
            )
        if self.seconds is not None and seconds_since >= self.seconds:
            return Ship(
                f"{quantities.seconds(seconds_since)} since the last snapshot, the limit is {self.seconds} s"
            )
        if self.bytes is not None and bytes_since >= self.bytes:
            new, limit = quantities.size(bytes_since), quantities.size(self.bytes)
            return Ship(f"{new} since the last snapshot, the limit is {limit}")
        return Hold(
            f"{epochs_since} epochs, {quantities.seconds(seconds_since)} and {quantities.size(bytes_since)}: no limit reached"
        )


_HOUR_SECONDS = 3600.0
_DAY_SECONDS = 86400.0


@dataclass(frozen=True, slots=True)
class DatedSnapshot:
    """A snapshot as retention sees it: retention decides by epoch and age."""

    id: str
    epoch: int
    created_at: float


@dataclass(frozen=True, slots=True)
class RetentionVerdict:
    """Keep a snapshot or drop it, with all reasons."""

    snapshot: DatedSnapshot
    keep: bool
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy:
    """Keep the newest `last`, and the newest one of each of the last `hourly` hours and `daily` days.

    Hours and days are those of UTC; the current one counts as the first.
    """

    last: int
    hourly: int = 0
    daily: int = 0

    def __post_init__(self) -> None:
        if self.last < 1:
            raise PermanentError(
                f"retention must keep at least the newest snapshot, not last={self.last}",
                hint="set last to 1 or more",
            )
        if self.hourly < 0 or self.daily < 0:
            raise PermanentError(
                f"hourly and daily must not be negative: {self}",
                hint="set them to 0 to switch them off",
            )

    def covering(self, seconds: float) -> "RetentionPolicy":
        """The same, with a snapshot to begin from for each epoch of the last `seconds`: one a day."""
        days = (
            math.ceil(seconds / _DAY_SECONDS) + 2
        )  # the current day, and the one before the first
        return replace(self, daily=max(self.daily, days))

    def decide(self, snapshots: Sequence[DatedSnapshot], *, now: float) -> list[RetentionVerdict]:
        """Decide on each snapshot, newest first."""
        ordered = sorted(
            snapshots, key=lambda facts: (facts.epoch, facts.created_at, facts.id), reverse=True
        )
        reasons: dict[str, list[str]] = {snapshot.id: [] for snapshot in ordered}
        for rank, snapshot in enumerate(ordered[: self.last]):
            reasons[snapshot.id].append(
                "the newest snapshot" if rank == 0 else f"one of the newest {self.last}"
            )
        _keep_periods(ordered, reasons, "hour", _HOUR_SECONDS, self.hourly, now)
        _keep_periods(ordered, reasons, "day", _DAY_SECONDS, self.daily, now)
        return [
            RetentionVerdict(snapshot, keep=True, reasons=tuple(reasons[snapshot.id]))
            if reasons[snapshot.id]
            else RetentionVerdict(snapshot, keep=False, reasons=self._drop_reasons())
            for snapshot in ordered
        ]

    def _drop_reasons(self) -> tuple[str, ...]:
        dropped = [f"older than the newest {self.last}"]
        if self.hourly:
            dropped.append(f"not the newest of one of the last {self.hourly} hours")
        if self.daily:
            dropped.append(f"not the newest of one of the last {self.daily} days")
        return tuple(dropped)


def _keep_periods(
    ordered: Sequence[DatedSnapshot],
    reasons: dict[str, list[str]],
    name: str,
    period_seconds: float,
    count: int,
    now: float,
) -> None:
    current = now // period_seconds
    covered: set[float] = set()
    for snapshot in ordered:
        period = min(snapshot.created_at // period_seconds, current)
        if current - period < count and period not in covered:
            covered.add(period)
            reasons[snapshot.id].append(f"the newest of its {name}")
