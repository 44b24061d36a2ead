"""Calibration: how long recoveries took as a whole, compared with the typical time that had been predicted.

A prediction is the sum of the typical times of its steps, times a factor. The factor is the upper quantile
of a score, observed / typical, over the past recoveries in the same tier: each was predicted from what had
been measured before its failure, so what the steps leave out, count twice, or what varies in none of them, is
in the scores. A tier with too few recoveries is uncalibrated: the bounds of its steps are added up instead,
with a declared margin.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp

import numpy as np

from holdfast.ft_policies.prediction.estimators import LENT_SPREAD, recent_weights, upper_ratio
from holdfast.ft_policies.prediction.steps import STEPS, TIERS, BoolArray, FloatArray, StepSeconds
from holdfast.ft_policies.tiers import Tier

FEWEST_RECOVERIES = 5
CONFIDENCE = 0.99
HALF_LIFE = 14.0
MOST_RECOVERIES = 70  # five half-lives
LENT_SPREAD_OF_SUMS = LENT_SPREAD * 0.66
"""A sum of four steps with a correlation of 0.25 varies by sqrt(0.75 / 4 + 0.25) of what one of them does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What a recovery took, by the typical time that was predicted for it; `at` is when it ended."""

    tier: Tier
    ratio: float
    at: float
    stream: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """By tier (..., tiers): the factor, 1 where a tier is uncalibrated, and the recoveries behind it."""

    factor: FloatArray
    own: FloatArray
    """Recoveries of the stream itself."""
    others: FloatArray
    """Those of other streams, which count while the stream has too few."""

    @property
    def calibrated(self) -> BoolArray:
        """Which tiers have enough recoveries."""
        return np.asarray(self.own + self.others >= FEWEST_RECOVERIES)

    @classmethod
    def of_typical_times(cls) -> "Calibration":
        """A factor of 1 for all tiers, as if they were calibrated."""
        ones = np.ones(len(TIERS))
        return cls(factor=ones, own=FEWEST_RECOVERIES * ones, others=np.zeros(len(TIERS)))

    @classmethod
    def stack(cls, calibrations: Iterable["Calibration"]) -> "Calibration":
        """Stack those of n streams, (n, 1, tiers), with an axis for intervals."""
        rows = list(calibrations)

        def column(name: str) -> FloatArray:
            return np.stack([getattr(row, name) for row in rows])[:, np.newaxis]

        return cls(factor=column("factor"), own=column("own"), others=column("others"))

    def apply(self, typical: StepSeconds, bounds: StepSeconds, *, margin: float) -> StepSeconds:
        """The typical steps times the factor; where a tier is uncalibrated, the bounds and a margin."""
        calibrated, factor, margined = self.calibrated, self.factor, 1.0 + margin
        return StepSeconds(
            **{
                step.value: np.where(
                    calibrated,
                    getattr(typical, step) * factor,
                    getattr(bounds, step) * margined,
                )
                for step in STEPS
            }
        )

    def describe(self, tier: int) -> str:
        """What the prediction of a tier of one stream is worth, in words."""
        own, others = int(self.own[tier]), int(self.others[tier])
        if own + others < FEWEST_RECOVERIES:
            count = f"{own + others} of the {FEWEST_RECOVERIES} recoveries that it takes"
            return f"uncalibrated ({count}), so a margin was added"
        if not others:
            return f"calibrated by {own} recoveries"
        return f"calibrated by {own + others} recoveries, {others} of them of other streams"


def calibrate(own: Sequence[Score], others: Sequence[Score] = ()) -> Calibration:
    """Calibrate each tier by the stream's own scores; those of other streams count until it has enough."""
    mine, theirs = _by_tier(own), _by_tier(others)
    chosen = [
        (mine[tier], theirs[tier] if len(mine[tier]) < FEWEST_RECOVERIES else []) for tier in TIERS
    ]
    return Calibration(
        factor=np.array([_factor([*scores, *more]) for scores, more in chosen]),
        own=np.array([float(len(scores)) for scores, _ in chosen]),
        others=np.array([float(len(more)) for _, more in chosen]),
    )


def newest_scores(scores: Iterable[Score]) -> list[Score]:
    """The newest scores of each tier over many streams: enough to leave one stream out."""
    by_tier = _by_tier(list(scores))
    return [score for of_tier in by_tier.values() for score in of_tier]


def _by_tier(scores: Sequence[Score]) -> Mapping[Tier, list[Score]]:
    """The newest scores of each tier, oldest first."""
    ordered = sorted(scores, key=lambda score: score.at)
    return {
        tier: [score for score in ordered if score.tier is tier][-MOST_RECOVERIES:]
        for tier in TIERS
    }


def _factor(scores: Sequence[Score]) -> float:
    if len(scores) < FEWEST_RECOVERIES:
        return 1.0
    ordered = sorted(scores, key=lambda score: score.at)
    ratios = np.log([score.ratio for score in ordered])
    weights = recent_weights(len(ordered), HALF_LIFE)
    return exp(upper_ratio(ratios, weights, confidence=CONFIDENCE, lent_spread=LENT_SPREAD_OF_SUMS))


UNCALIBRATED = calibrate(())
"""No tier has had a recovery."""
