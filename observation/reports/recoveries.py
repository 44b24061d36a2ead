"""The recoveries of a stream as they went, beside what the recovery model says of them.

Each is predicted from what had been measured before the failure, for as much as there then was to read
and to replay: it is the model that is judged, and not how old the last decision was.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import TypeAlias

from holdfast.ft_policies.costs.report import Cell
from holdfast.ft_policies.costs.tier_spans import TierSpan
from holdfast.ft_policies.prediction.estimators import Observation
from holdfast.ft_policies.prediction.model import RecoveryModel, StepTimings
from holdfast.ft_policies.prediction.steps import GOES_THROUGH, STEPS, TIERS, RecoveryStep
from holdfast.ft_policies.tiers import Tier
from holdfast.observation.recovery_history import SLACK_SECONDS, Recovery

Promised: TypeAlias = Callable[[Sequence[Observation]], Sequence[Observation]]
"""Adds what the lease promises to what was detected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """One recovery; `at` is when the stream had caught up, `lost_at` the last sign of life before."""

    stream: str
    at: float
    lost_at: float
    tier: Tier
    seconds: float
    steps: Mapping[RecoveryStep, Observation]


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
        """A row for the whole, and a row for each step that was both predicted and measured."""
        steps = [
            (step.value, self.predicted_steps[step], observation.seconds)
            for step, observation in self.recovered.steps.items()
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


def match_recoveries(
    stream: str,
    observed: Sequence[Recovery],
    step_timings: StepTimings,
    spans: Sequence[TierSpan],
    *,
    count_detection: bool,
) -> list[Recovered]:
    """Whole recoveries with the tier that the stream had and the steps of that time."""
    return [
        Recovered(
            stream=stream,
            at=recovery.at,
            lost_at=recovery.at - recovery.seconds,
            tier=Tier.PASSIVE_REPLICATION
            if recovery.cold
            else _tier_at(spans, recovery.at - recovery.seconds),
            seconds=recovery.counted(count_detection),
            steps=_steps(recovery, step_timings),
        )
        for recovery in observed
    ]


def compare_recoveries(
    recovered: Sequence[Recovered],
    step_timings: StepTimings,
    model: RecoveryModel,
    promised: Promised,
    *,
    capacity: float,
) -> list[Compared]:
    """Each recovery that could be predicted; in `active_replication` there is nothing to recover."""
    predicted = [
        _compare(
            recovery, _measured_before(recovery.lost_at, step_timings, promised), model, capacity
        )
        for recovery in recovered
        if recovery.tier is not Tier.ACTIVE_REPLICATION and _is_sized(recovery)
    ]
    return [recovery for recovery in predicted if isfinite(recovery.predicted_seconds)]


def _is_sized(recovered: Recovered) -> bool:
    """Whether it is known how much there was to do, where that matters."""
    at = TIERS.index(recovered.tier)
    return all(
        step in recovered.steps or not GOES_THROUGH[at, STEPS.index(step)]
        for step in (RecoveryStep.READ_SNAPSHOT, RecoveryStep.REPLAY)
    )


def _measured_before(moment: float, step_timings: StepTimings, promised: Promised) -> StepTimings:
    """What had been measured by then."""

    def earlier(history: Sequence[Observation]) -> list[Observation]:
        return [observation for observation in history if observation.at < moment]

    steps = {step: earlier(history) for step, history in step_timings.steps.items()}
    detected = promised(steps.get(RecoveryStep.DETECT, []))
    return StepTimings(
        steps={**steps, RecoveryStep.DETECT: detected}, writes=earlier(step_timings.writes)
    )


def _compare(
    recovered: Recovered, measured: StepTimings, model: RecoveryModel, capacity: float
) -> Compared:
    def size(step: RecoveryStep) -> float:
        return recovered.steps[step].size if step in recovered.steps else 0.0

    steps, seconds = model.seconds_for(
        model.fit(measured).bounds,
        bytes_to_read=size(RecoveryStep.READ_SNAPSHOT),
        rows=size(RecoveryStep.REPLAY),
        capacity=capacity,
    )
    tier = TIERS.index(recovered.tier)
    parts = steps.of_tiers(count_detection=model.count_detection)[tier]
    return Compared(
        recovered=recovered,
        predicted_seconds=float(seconds[tier]),
        predicted_steps={
            step: float(part) for step, part in zip(STEPS, parts, strict=True) if part > 0
        },
    )


def _steps(recovery: Recovery, step_timings: StepTimings) -> dict[RecoveryStep, Observation]:
    """What each step took meanwhile, in the replica that took over or was launched."""
    begun, ended = recovery.at - recovery.seconds - SLACK_SECONDS, recovery.at + SLACK_SECONDS
    return {
        step: observation
        for step, history in step_timings.steps.items()
        for observation in history
        if begun <= observation.at <= ended and observation.cold is recovery.cold
    }


def _tier_at(spans: Sequence[TierSpan], moment: float) -> Tier:
    """The tier that began last before a moment."""
    before = [span for span in spans if span.from_at <= moment]
    return before[-1].tier if before else Tier.PASSIVE_REPLICATION
