"""The recoveries of a stream, compared with the predictions of the recovery model.

Each is predicted from the measurements before the failure, for the bytes and rows that there were to
read and to replay: so the model is judged, and not the age of the last decision.
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
"""Adds the bounds that the lease promises to the detection times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedRecovery:
    """One recovery; `at` is when the first new epoch was committed, `lost_at` the last heartbeat before the failure."""

    stream: str
    at: float
    lost_at: float
    tier: Tier
    seconds: float
    steps: Mapping[RecoveryStep, Observation]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryComparison:
    """A recovery beside its prediction."""

    recovered: MatchedRecovery
    predicted_seconds: float
    predicted_steps: Mapping[RecoveryStep, float] = field(default_factory=dict)

    @property
    def tier(self) -> Tier:
        """The tier that the stream had at the failure."""
        return self.recovered.tier

    @property
    def observed_seconds(self) -> float:
        """The measured time."""
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
) -> list[MatchedRecovery]:
    """Match whole recoveries with the tier that the stream had, and with the steps of that time."""
    return [
        MatchedRecovery(
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
    recovered: Sequence[MatchedRecovery],
    step_timings: StepTimings,
    model: RecoveryModel,
    promised: Promised,
    *,
    capacity: float,
) -> list[RecoveryComparison]:
    """Compare each recovery that can be predicted; in `active_replication` only a pause is measured."""
    predicted = [
        _compare(
            recovery, _measured_before(recovery.lost_at, step_timings, promised), model, capacity
        )
        for recovery in recovered
        if recovery.tier is not Tier.ACTIVE_REPLICATION and _is_sized(recovery)
    ]
    return [recovery for recovery in predicted if isfinite(recovery.predicted_seconds)]


def _is_sized(recovered: MatchedRecovery) -> bool:
    """Whether the sizes of all steps that depend on one are known."""
    at = TIERS.index(recovered.tier)
    return all(
        step in recovered.steps or not GOES_THROUGH[at, STEPS.index(step)]
        for step in (RecoveryStep.READ_SNAPSHOT, RecoveryStep.REPLAY)
    )


def _measured_before(at: float, step_timings: StepTimings, promised: Promised) -> StepTimings:
    """The timings that had been measured before a time."""

    def earlier(history: Sequence[Observation]) -> list[Observation]:
        return [observation for observation in history if observation.at < at]

    steps = {step: earlier(history) for step, history in step_timings.steps.items()}
    detected = promised(steps.get(RecoveryStep.DETECT, []))
    return StepTimings(
        steps={**steps, RecoveryStep.DETECT: detected}, writes=earlier(step_timings.writes)
    )


def _compare(
    recovered: MatchedRecovery, measured: StepTimings, model: RecoveryModel, capacity: float
) -> RecoveryComparison:
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
    return RecoveryComparison(
        recovered=recovered,
        predicted_seconds=float(seconds[tier]),
        predicted_steps={
            step: float(part) for step, part in zip(STEPS, parts, strict=True) if part > 0
        },
    )


def _steps(recovery: Recovery, step_timings: StepTimings) -> dict[RecoveryStep, Observation]:
    """The steps during a recovery, in the replica that took over or was launched."""
    begun, ended = recovery.at - recovery.seconds - SLACK_SECONDS, recovery.at + SLACK_SECONDS
    return {
        step: observation
        for step, history in step_timings.steps.items()
        for observation in history
        if begun <= observation.at <= ended and observation.cold is recovery.cold
    }


def _tier_at(spans: Sequence[TierSpan], at: float) -> Tier:
    """The tier of the last span that began before a time."""
    before = [span for span in spans if span.from_at <= at]
    return before[-1].tier if before else Tier.PASSIVE_REPLICATION
