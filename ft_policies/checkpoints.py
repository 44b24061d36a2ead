"""When to ship a snapshot: every N epochs, T seconds or B bytes, whichever comes first."""

from dataclasses import dataclass
from typing import TypeAlias

from ft_policies.errors import PermanentError


@dataclass(frozen=True, slots=True)
class Ship:
    """Ship a snapshot now."""

    reason: str


@dataclass(frozen=True, slots=True)
class Hold:
    """Keep what was shipped last."""

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
                hint="for example: epochs: 10",
            )
        if any(limit is not None and limit <= 0 for limit in limits):
            raise PermanentError(
                f"the limits of a checkpoint policy must be positive: {self}",
                hint="leave a limit out to switch it off",
            )

    def decide(
        self, *, epochs_since: int, seconds_since: float, bytes_since: int
    ) -> CheckpointDecision:
        """Judge what has happened since the last snapshot."""
        if epochs_since == 0:
            return Hold("no epoch was committed since the last snapshot")
        if self.epochs is not None and epochs_since >= self.epochs:
            return Ship(
                f"{epochs_since} epochs since the last snapshot, the limit is {self.epochs}"
            )
        if self.seconds is not None and seconds_since >= self.seconds:
            return Ship(
                f"{seconds_since:.1f} s since the last snapshot, the limit is {self.seconds} s"
            )
        if self.bytes is not None and bytes_since >= self.bytes:
            return Ship(f"{bytes_since} bytes since the last snapshot, the limit is {self.bytes}")
        return Hold(
            f"{epochs_since} epochs, {seconds_since:.1f} s and {bytes_since} bytes: no limit reached"
        )
