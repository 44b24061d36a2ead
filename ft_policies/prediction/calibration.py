"""Calibration: how long recoveries took, compared with the typical time that had been predicted.

A prediction is what depends on the moment of the failure, the detection and the wait for an epoch to close, and the
work: the sum of the typical times of the other steps, times a factor. The factor is the upper quantile of a score,
observed / typical work, over the past recoveries in the same tier, by what is typical today: so what the steps leave
out, count twice, or what varies in none of them, is in the scores. A tier with too few recoveries is uncalibrated: the
bounds of its steps are added up instead, with a declared margin.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from math import exp

import numpy as np

from holdfast.ft_policies.prediction.estimators import LENT_SPREAD, recent_weights, upper_ratio
from holdfast.ft_policies.prediction.steps import (
    STEPS,
    TIERS,
    BoolArray,
    FloatArray,
    FloatLike,
    StepSeconds,
)
from holdfast.ft_policies.tiers import SECONDARY, Tier

FEWEST_RECOVERIES = 5
CONFIDENCE = 0.99
HALF_LIFE = 14.0
MOST_RECOVERIES = 70  # five half-lives
LENT_SPREADS = {tier: LENT_SPREAD * (1.0 if SECONDARY[tier].process else 0.85) for tier in TIERS}
"""A sum of steps varies less than one of them; a secondary that processes has but one left, a batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What the work of a recovery took, by what is typical for it; `at` is when it ended."""

    tier: Tier
    ratio: float
    at: float
    stream: str = ""
    epoch_waits: bool = False
    """An epoch was under way at the failure, and its commit ended the recovery."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """By tier (..., tiers): the factor, 1 where a tier is uncalibrated, and the recoveries behind it."""

    factor: FloatArray
    own: FloatArray
    """Recoveries of the stream itself."""
    others: FloatArray
    """Those of other streams, which count while the stream has too few."""
    lent: FloatArray
    """Those of other tiers or cases, which count while there are still too few."""

    @property
    def calibrated(self) -> BoolArray:
        """Which tiers have enough recoveries, one of them of the tier itself."""
        of_tier = self.own + self.others
        return np.asarray((of_tier > 0) & (of_tier + self.lent >= FEWEST_RECOVERIES))

    @classmethod
    def of_typical_times(cls) -> "Calibration":
        """A factor of 1 for all tiers, as if they were calibrated."""
        ones = np.ones(len(TIERS))
        none = np.zeros(len(TIERS))
        return cls(factor=ones, own=FEWEST_RECOVERIES * ones, others=none, lent=none)

    @classmethod
    def stack(cls, calibrations: Iterable["Calibration"]) -> "Calibration":
        """Stack those of n streams, (n, 1, tiers), with an axis for intervals."""
        rows = list(calibrations)

        def column(name: str) -> FloatArray:
            return np.stack([getattr(row, name) for row in rows])[:, np.newaxis]

        return cls(**{part.name: column(part.name) for part in fields(cls)})

    def apply(
        self,
        work: StepSeconds,
        bounds: StepSeconds,
        *,
        detect: FloatLike,
        wait: FloatLike,
        margin: float,
    ) -> StepSeconds:
        """The typical work times the factor, detection and wait as they are; uncalibrated, the bounds and a margin."""
        calibrated, factor, margined = self.calibrated, self.factor, 1.0 + margin
        steps = {
            step.value: np.where(
                calibrated, getattr(work, step) * factor, getattr(bounds, step) * margined
            )
            for step in STEPS
        }
        steps["detect"] = np.where(calibrated, detect, steps["detect"])
        steps["first_commit"] = steps["first_commit"] + np.where(calibrated, wait, 0.0)
        return StepSeconds(**steps)

    def describe(self, tier: int) -> str:
        """What the prediction of a tier of one stream is worth, in words."""
        own, others, lent = (int(part[tier]) for part in (self.own, self.others, self.lent))
        count = own + others + lent
        if not self.calibrated[tier]:
            lacking = (
                f"{count} of the {FEWEST_RECOVERIES} recoveries that it takes"
                if count < FEWEST_RECOVERIES
                else "no recovery in this tier"
            )
            return f"uncalibrated ({lacking}), so a margin was added"
        parts = {"other streams": others, "other tiers": lent}
        borrowed = "".join(f", {part} of them of {whose}" for whose, part in parts.items() if part)
        return f"calibrated by {count} recoveries{borrowed}"


def calibrate(
    own: Sequence[Score], others: Sequence[Score] = (), *, epoch_waits: bool | None = None
) -> Calibration:
    """Calibrate each tier by the stream's own scores.

    Until there are enough, those of other streams in the tier count as well, and then those of other tiers. Where the
    secondary processes, an epoch that waits is a case of its own, if it is known whether one does.
    """
    chosen = [_choose(tier, own, others, epoch_waits=epoch_waits) for tier in TIERS]
    return Calibration(
        factor=np.array(
            [
                _factor([*own, *others, *lent], LENT_SPREADS[tier])
                for tier, (own, others, lent) in zip(TIERS, chosen, strict=True)
            ]
        ),
        own=np.array([float(len(own)) for own, _, _ in chosen]),
        others=np.array([float(len(others)) for _, others, _ in chosen]),
        lent=np.array([float(len(lent)) for _, _, lent in chosen]),
    )


def _choose(
    tier: Tier, own: Sequence[Score], others: Sequence[Score], *, epoch_waits: bool | None
) -> tuple[list[Score], list[Score], list[Score]]:
    """The scores that count in a tier: the stream's own, those of other streams, those of other tiers."""

    def is_alike(score: Score) -> bool:
        any_case = epoch_waits is None or not SECONDARY[tier].process
        return score.tier is tier and (any_case or score.epoch_waits is epoch_waits)

    mine = _newest(score for score in own if is_alike(score))
    theirs = _newest(score for score in others if is_alike(score))
    if len(mine) >= FEWEST_RECOVERIES:
        return mine, [], []
    if len(mine) + len(theirs) >= FEWEST_RECOVERIES:
        return mine, theirs, []
    return mine, theirs, _newest(score for score in (*own, *others) if not is_alike(score))


def newest_scores(scores: Iterable[Score]) -> list[Score]:
    """The newest scores of each tier over many streams: enough to leave one stream out."""
    kept = list(scores)
    return [
        score for tier in TIERS for score in _newest(score for score in kept if score.tier is tier)
    ]


def _newest(scores: Iterable[Score]) -> list[Score]:
    """The newest scores, oldest first."""
    return sorted(scores, key=lambda score: score.at)[-MOST_RECOVERIES:]


def _factor(scores: Sequence[Score], lent_spread: float) -> float:
    if len(scores) < FEWEST_RECOVERIES:
        return 1.0
    ordered = sorted(scores, key=lambda score: score.at)
    ratios = np.log([score.ratio for score in ordered])
    weights = recent_weights(len(ordered), HALF_LIFE)
    return exp(upper_ratio(ratios, weights, confidence=CONFIDENCE, lent_spread=lent_spread))


UNCALIBRATED = calibrate(())
"""No tier has had a recovery."""
