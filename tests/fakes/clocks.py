"""A clock that moves when a test says so."""

from dataclasses import dataclass


@dataclass
class SteppedClock:
    """Time stands still between steps."""

    at: float = 1000.0

    def step(self, seconds: float) -> None:
        self.at += seconds

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.step(seconds)
