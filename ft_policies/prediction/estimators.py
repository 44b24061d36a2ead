"""How long a step of a recovery will take, estimated from how long it took before.

An estimator fits a line over the size of the work once; the line is evaluated for any number of sizes.

The default, `UpperQuantile`, compares times by their ratio to the typical time for their size. The typical
time is a robust line through the history. The bound is the upper quantile of the ratios, with a margin for how few
they are (Student's t of a usual spread). Newer observations count more: changes are followed, outliers are forgotten.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import exp, inf, sqrt
from statistics import NormalDist
from typing import Protocol

import numpy as np

from holdfast.ft_policies.prediction.steps import FloatArray, FloatLike

JITTER_SECONDS = 0.1  # of any time: short times do not have less of it
LENT_OBSERVATIONS = 3.0
LENT_SPREAD = 0.14  # of the logarithm: one observation is then trusted to a factor of about 1.6
FEWEST_FOR_A_LINE = 3
LEAST_SIZE_RATIO = 1.5  # sizes that differ less than this do not show a slope
HALF_LIVES_KEPT = 5.0


class Readiness(IntEnum):
    """How ready the driver was for a step: a readier driver is faster."""

    COLD = 0
    """Launched for the recovery, without a rehearsal."""
    BESIDE = 1
    """A secondary, beside a primary that took its share of the machine."""
    WARM = 2
    """A secondary that took over, and had rehearsed."""
    RUNNING = 3
    """A secondary that took over, and was processing."""
    SENDING = 4
    """A secondary that took over, and was sending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A measured step; `size` is the bytes read or the rows replayed, 0 for a step without a size."""

    seconds: float
    size: float = 0.0
    readiness: Readiness = Readiness.WARM
    at: float = 0.0

    @property
    def cold(self) -> bool:
        return self.readiness is Readiness.COLD


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """An upper bound over the size: base + slope · size; `inf` if nothing was measured.

    Beyond the `largest` size that was measured it grows by `beyond` instead. `unsure` is the share of the
    bound that a typical observation does not need.
    """

    base: float
    slope: float = 0.0
    largest: float = inf
    beyond: float = 0.0
    unsure: float = 0.0
    samples: int

    def at(self, size: FloatLike) -> FloatArray:
        sizes = np.asarray(size, dtype=np.float64)
        excess = np.maximum(sizes - self.largest, 0.0)
        return self.base + self.slope * np.minimum(sizes, self.largest) + self.beyond * excess


UNKNOWN = Line(base=inf, samples=0)


class Estimator(Protocol):
    """Fits the bound of a step to its history."""

    def line(self, history: Sequence[Observation]) -> Line:
        """The bound for any size; `UNKNOWN` if it was never measured."""
        ...


@dataclass(frozen=True, slots=True)
class MaxOfHistory(Estimator):
    """The thesis' estimator: the longest time ever measured, whatever its size; nothing is forgotten."""

    def line(self, history: Sequence[Observation]) -> Line:
        if not history:
            return UNKNOWN
        longest = max(observation.seconds for observation in history)
        return Line(base=longest, samples=len(history))


@dataclass(frozen=True, slots=True)
class LeastThroughput(Estimator):
    """The thesis' estimator of a transfer: its size over the least throughput ever measured."""

    def line(self, history: Sequence[Observation]) -> Line:
        """A line through the origin."""
        sized = [observation for observation in history if observation.size > 0]
        paces = [observation.seconds / observation.size for observation in sized]
        if not paces:
            return UNKNOWN
        return Line(base=0.0, slope=max(paces), samples=len(paces))


@dataclass(frozen=True, slots=True, kw_only=True)
class UpperQuantile(Estimator):
    """The bound that a share of `confidence` of new observations stays under.

    An observation counts half as much as one that has come `half_life` observations later.
    """

    confidence: float = 0.95
    half_life: float = 7.0

    def line(self, history: Sequence[Observation]) -> Line:
        """The bound for any size; beyond the largest it grows by the fitted slope, or in proportion."""
        if not history:
            return UNKNOWN
        count = int(HALF_LIVES_KEPT * self.half_life)
        newest = sorted(history, key=lambda observation: observation.at)[-count:]
        seconds = np.array([observation.seconds for observation in newest])
        sizes = np.array([observation.size for observation in newest])
        weights = recent_weights(len(newest), self.half_life)
        base, slope = _typical(seconds, sizes, weights)
        ratios = np.log((seconds + JITTER_SECONDS) / (base + slope * sizes + JITTER_SECONDS))
        factor = exp(
            upper_ratio(ratios, weights, confidence=self.confidence, fitted=2 if slope > 0 else 1)
        )
        bound = max(factor * base + (factor - 1.0) * JITTER_SECONDS, 0.0)
        growth, largest = factor * slope, float(sizes.max())
        return Line(
            base=bound,
            slope=growth,
            largest=largest or inf,
            beyond=bound / largest if largest > 0 and not _differ(sizes) else growth,
            unsure=max(1.0 - 1.0 / factor, 0.0),
            samples=len(history),
        )


def recent_weights(count: int, half_life: float) -> FloatArray:
    """The weights of observations, oldest first: one counts half as much as one that came `half_life` later."""
    weights: FloatArray = 0.5 ** (np.arange(count)[::-1] / half_life)
    return weights


def upper_ratio(
    ratios: FloatArray,
    weights: FloatArray,
    *,
    confidence: float,
    fitted: int = 1,
    lent_spread: float = LENT_SPREAD,
) -> float:
    """The upper quantile of a new ratio, all as logarithms; `fitted` parameters reduce the freedom.

    The margin depends only on the count. So a lower ratio never raises the quantile: that something was now and then
    faster says nothing about how slow it may be, as a spread around the middle would.
    """
    count = float(weights.sum() ** 2 / (weights**2).sum())
    freedom = LENT_OBSERVATIONS + count - fitted
    spread = lent_spread * sqrt(LENT_OBSERVATIONS / freedom)
    margin = _student(confidence, freedom) * spread * sqrt(1.0 + fitted / count)
    return _quantile(ratios, weights, confidence) + margin


def _typical(seconds: FloatArray, sizes: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Base and slope, neither below 0: the median of all slopes between two observations (Theil-Sen)."""
    median = _quantile(seconds, weights, 0.5)
    if not _differ(sizes):
        return median, 0.0
    left, right = np.triu_indices(len(sizes), k=1)
    distances = sizes[right] - sizes[left]
    differ = distances != 0
    if not differ.any():
        return median, 0.0
    slopes = (seconds[right] - seconds[left])[differ] / distances[differ]
    slope = _quantile(slopes, (weights[left] * weights[right] * np.abs(distances))[differ], 0.5)
    if slope <= 0:
        return median, 0.0
    base = _quantile(seconds - slope * sizes, weights, 0.5)
    if base >= 0:
        return base, slope
    sized = sizes > 0
    return 0.0, _quantile(seconds[sized] / sizes[sized], weights[sized], 0.5)


def shows_a_slope(history: Sequence[Observation]) -> bool:
    """Whether the sizes differ enough to fit how a step grows."""
    return _differ(np.array([observation.size for observation in history]))


def _differ(sizes: FloatArray) -> bool:
    return len(sizes) >= FEWEST_FOR_A_LINE and sizes.max() >= LEAST_SIZE_RATIO * sizes.min()


def _quantile(values: FloatArray, weights: FloatArray, share: float) -> float:
    """The least value that at least `share` of the weight does not exceed."""
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    at = int(np.searchsorted(reached, share * reached[-1]))
    return float(values[order][min(at, len(values) - 1)])


def _student(confidence: float, freedom: float) -> float:
    """The quantile of Student's t (Cornish-Fisher; good to a percent from three degrees of freedom)."""
    z = NormalDist().inv_cdf(confidence)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3
