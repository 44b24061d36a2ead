"""The recoveries of a stream as they went, beside what had been predicted of them.

A prediction counts only if it was made before the failure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

from ft_policies.cost_report import Cell
from ft_policies.decisions import Decision, TierVerdict
from ft_policies.estimators import Observation
from ft_policies.prediction import Histories
from ft_policies.recovery_model import RecoveryStep
from ft_policies.tier_spans import TierSpan
from ft_policies.tiers import Tier

SLACK_SECONDS = 1.0  # what is measured is written a moment later


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """One recovery; `at` is when the stream was level again."""

    stream: str
    at: float
    tier: Tier
    seconds: float
    steps: Mapping[RecoveryStep, float]

    @property
    def lost_at(self) -> float:
        """The last sign of life of what failed."""
        return self.at - self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A recovery beside its prediction."""

    recovered: Recovered
    predicted_seconds: float
    predicted_steps: Mapping[RecoveryStep, float] = field(default_factory=dict)

    @property
    def tier(self) -> Tier:
        """The tier that it was recovered from."""
        return self.recovered.tier

    @property
    def observed_seconds(self) -> float:
        """What it took."""
        return self.recovered.seconds

    def cells(self) -> list[dict[str, Cell]]:
        """One row for the whole, and one for each step that was both predicted and measured."""
        steps = [
            (step.value, self.predicted_steps[step], seconds)
            for step, seconds in self.recovered.steps.items()
            if step in self.predicted_steps
        ]
        return [
            {
                "stream": self.recovered.stream,
                "at": self.recovered.at,
                "tier": self.tier.value,
                "step": step,
                "predicted_seconds": predicted,
                "observed_seconds": observed,
                "held": observed <= predicted,
            }
            for step, predicted, observed in (
                ("all", self.predicted_seconds, self.observed_seconds),
                *steps,
            )
        ]


def recoveries(
    stream: str,
    observed: Sequence[Observation],
    histories: Histories,
    spans: Sequence[TierSpan],
) -> list[Recovered]:
    """Whole recoveries with the tier that the stream had and the steps of that time."""
    return [
        Recovered(
            stream=stream,
            at=one.at,
            tier=Tier.PASSIVE_REPLICATION if one.cold else _tier_at(spans, one.at - one.seconds),
            seconds=one.seconds,
            steps=_steps(one, histories),
        )
        for one in observed
    ]


def compared(recovered: Sequence[Recovered], decisions: Sequence[Decision]) -> list[Compared]:
    """Each recovery beside the newest prediction that was there when the failure came."""
    found = []
    for one in recovered:
        verdict = _predicted(one, decisions)
        if verdict is not None and isfinite(verdict.seconds):
            found.append(
                Compared(
                    recovered=one,
                    predicted_seconds=verdict.seconds,
                    predicted_steps=verdict.steps,
                )
            )
    return found


def _predicted(recovered: Recovered, decisions: Sequence[Decision]) -> TierVerdict | None:
    before = [one for one in decisions if one.at <= recovered.lost_at]
    newest = max(before, key=lambda one: one.at, default=None)
    if newest is None:
        return None
    return next((one for one in newest.tiers if one.tier is recovered.tier), None)


def _steps(recovery: Observation, histories: Histories) -> dict[RecoveryStep, float]:
    """What each step took meanwhile, in the replica that took over, or in the one that was launched."""
    begun, ended = recovery.at - recovery.seconds - SLACK_SECONDS, recovery.at + SLACK_SECONDS
    return {
        step: one.seconds
        for step, history in histories.steps.items()
        for one in history
        if begun <= one.at <= ended and one.cold is recovery.cold
    }


def _tier_at(spans: Sequence[TierSpan], moment: float) -> Tier:
    """The tier that began last before a moment."""
    before = [span for span in spans if span.from_at <= moment]
    return before[-1].tier if before else Tier.PASSIVE_REPLICATION
