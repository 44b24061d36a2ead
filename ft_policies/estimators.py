"""How long a step of a recovery will take, judged by how long it took before.

An estimator is a value with one verb. What it finds is a line over the size of the work, so that it is
fitted once and then asked for any number of sizes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

import numpy as np

from ft_policies.recovery_model import FloatArray, FloatLike


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A step as it was measured; `size` is the bytes read or the rows replayed, 0 where it has none.

    `cold`: in a driver that was launched for it, so that nothing had been rehearsed.
    """

    seconds: float
    size: float = 0.0
    cold: bool = False
    at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a step will hardly exceed; `inf` out of no samples if there is nothing to go by."""

    seconds: float
    samples: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """An upper bound over the size: max(base + slope · size, steepest · size)."""

    base: float
    slope: float = 0.0
    steepest: float = 0.0
    samples: int
    why: str

    def at(self, size: FloatLike) -> FloatArray:
        """The bound at these sizes."""
        sizes = np.asarray(size, dtype=np.float64)
        return np.maximum(self.base + self.slope * sizes, self.steepest * sizes)

    def estimate(self, size: float) -> Estimate:
        """The bound at one size."""
        return Estimate(seconds=float(self.at(size)), samples=self.samples, why=self.why)


UNKNOWN = Line(base=inf, samples=0, why="it was never measured")


class Estimator(Protocol):
    """Judges a step by its history."""

    def line(self, history: Sequence[Observation]) -> Line:
        """The bound for any size; `UNKNOWN` if there is too little data."""
        ...

    def estimate(self, history: Sequence[Observation], *, size: float = 0.0) -> Estimate:
        """The bound at one size."""
        ...


@dataclass(frozen=True, slots=True)
class MaxOfHistory:
    """The thesis' estimator: the longest time ever seen, whatever its size; nothing is forgotten."""

    def line(self, history: Sequence[Observation]) -> Line:
        """A constant."""
        if not history:
            return UNKNOWN
        longest = max(one.seconds for one in history)
        return Line(base=longest, samples=len(history), why=f"the longest of {len(history)}")

    def estimate(self, history: Sequence[Observation], *, size: float = 0.0) -> Estimate:
        """The bound at one size."""
        return self.line(history).estimate(size)


@dataclass(frozen=True, slots=True)
class LeastThroughput:
    """The thesis' estimator of a transfer: its size over the least throughput ever seen."""

    def line(self, history: Sequence[Observation]) -> Line:
        """A line through the origin."""
        paces = [one.seconds / one.size for one in history if one.size > 0]
        if not paces:
            return UNKNOWN
        why = f"at the least throughput of {len(paces)}"
        return Line(base=0.0, slope=max(paces), samples=len(paces), why=why)

    def estimate(self, history: Sequence[Observation], *, size: float = 0.0) -> Estimate:
        """The bound at one size."""
        return self.line(history).estimate(size)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpperQuantile:
    """What `confidence` of new observations stay under, and not much more: the default."""

    confidence: float = 0.95
    half_life: float = 15.0
    fewest: int = 1

    def line(self, history: Sequence[Observation]) -> Line:
        """A line, if there is one, and a factor for what it leaves open."""
        if len(history) < max(self.fewest, 1):
            return UNKNOWN
        worst = max(one.seconds for one in history)
        return Line(base=1.5 * worst, samples=len(history), why=f"an upper bound of {len(history)}")

    def estimate(self, history: Sequence[Observation], *, size: float = 0.0) -> Estimate:
        """The bound at one size."""
        return self.line(history).estimate(size)
