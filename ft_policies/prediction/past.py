"""Past recoveries, each predicted from what had been measured before its failure.

A recovery counts in the tier that the secondary really had: one that gave way on a busy host, or was still being
restored, starts a query or reads a snapshot, whatever tier was wanted.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import TypeAlias

from holdfast.ft_policies.prediction.calibration import Score, calibrate
from holdfast.ft_policies.prediction.estimators import Observation, Readiness
from holdfast.ft_policies.prediction.model import RecoveryModel, StepTimings
from holdfast.ft_policies.prediction.steps import (
    GOES_THROUGH,
    STEPS,
    TIERS,
    RecoveryStep,
)
from holdfast.ft_policies.tiers import Tier

Promised: TypeAlias = Callable[[Sequence[Observation]], Sequence[Observation]]
"""Adds the bounds that the lease promises to the detection times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRecovery:
    """One recovery; `at` is its first new commit, `lost_at` the last heartbeat before the failure."""

    stream: str
    at: float
    lost_at: float
    tier: Tier
    seconds: float
    steps: Mapping[RecoveryStep, Observation]


@dataclass(frozen=True, slots=True, kw_only=True)
class PastPrediction:
    """A recovery and its prediction, calibrated by the recoveries before it; `typical_seconds` has no factor."""

    recovered: PastRecovery
    seconds: float
    typical_seconds: float
    steps: Mapping[RecoveryStep, float] = field(default_factory=dict)

    @property
    def score(self) -> Score:
        """By which later recoveries are calibrated."""
        return Score(
            stream=self.recovered.stream,
            tier=self.recovered.tier,
            ratio=self.recovered.seconds / self.typical_seconds,
            at=self.recovered.at,
        )


def tier_by_steps(wanted: Tier, steps: Mapping[RecoveryStep, Observation]) -> Tier:
    """The tier that a secondary really had, by the steps that its takeover went through."""
    if RecoveryStep.READ_SNAPSHOT in steps:
        return max(wanted, Tier.DEPLOYED, key=TIERS.index)
    if wanted in (Tier.ACTIVE_REPLICATION, Tier.ACTIVE_STANDBY):
        if RecoveryStep.WIRE_RECEIVE in steps:
            return Tier.PASSIVE_STANDBY_COLD
        pause = steps.get(RecoveryStep.FIRST_COMMIT)
        sent = pause is not None and pause.readiness is Readiness.SENDING
        return Tier.ACTIVE_REPLICATION if sent else Tier.ACTIVE_STANDBY
    return wanted


def predict_past(
    recovered: Iterable[PastRecovery],
    timings: StepTimings,
    model: RecoveryModel,
    promised: Promised,
    *,
    capacity: float,
    next_commit_seconds: float,
    known_predictions: Sequence[PastPrediction] = (),
) -> list[PastPrediction]:
    """Predict each recovery, oldest first, for the bytes and rows that there were to read and to replay.

    The replay of one without a first commit has committed an epoch that was decided before the failure.
    Those that could not be predicted yet, or whose sizes are unknown, are left out. Of a recovery that is among the
    `known_predictions` with the same steps, the prediction is kept: it follows from what was measured before.
    """
    predictions: list[PastPrediction] = []
    known_by_end = {past.recovered.at: past for past in known_predictions}
    for recovery in sorted(recovered, key=lambda recovery: recovery.at):
        if not _is_sized(recovery):
            continue
        kept = known_by_end.get(recovery.at)
        if kept is not None and kept.recovered == recovery:
            predictions.append(kept)
            continue
        bounds = model.fit(select_timings_before(recovery.lost_at, timings, promised)).bounds
        earlier = [past.score for past in predictions if past.recovered.at < recovery.lost_at]
        tier, counts = TIERS.index(recovery.tier), model.count_detection
        read = _size(recovery, RecoveryStep.READ_SNAPSHOT)
        rows = _size(recovery, RecoveryStep.REPLAY)
        waited = RecoveryStep.FIRST_COMMIT not in recovery.steps
        steps, seconds = model.seconds_for(
            bounds,
            bytes_to_read=read,
            rows=rows,
            capacity=capacity,
            next_commit_seconds=next_commit_seconds,
            calibration=calibrate(earlier),
            epoch_waits=waited,
        )
        typical = model.typical_seconds(
            bounds,
            bytes_to_read=read,
            rows=rows,
            capacity=capacity,
            next_commit_seconds=next_commit_seconds,
            epoch_waits=waited,
        )
        if isfinite(typical[tier]) and typical[tier] > 0 and recovery.seconds > 0:
            parts = steps.of_tiers(count_detection=counts)[tier]
            predictions.append(
                PastPrediction(
                    recovered=recovery,
                    seconds=float(seconds[tier]),
                    typical_seconds=float(typical[tier]),
                    steps={
                        step: float(part)
                        for step, part in zip(STEPS, parts, strict=True)
                        if part > 0
                    },
                )
            )
    return predictions


def select_timings_before(at: float, timings: StepTimings, promised: Promised) -> StepTimings:
    """The timings that had been measured before a time."""

    def earlier(history: Sequence[Observation]) -> list[Observation]:
        return [observation for observation in history if observation.at < at]

    steps = {step: earlier(history) for step, history in timings.steps.items()}
    detected = promised(steps.get(RecoveryStep.DETECT, []))
    return StepTimings(
        steps={**steps, RecoveryStep.DETECT: detected}, writes=earlier(timings.writes)
    )


def _is_sized(recovered: PastRecovery) -> bool:
    """Whether the sizes of all steps that depend on one are known."""
    at = TIERS.index(recovered.tier)
    return all(
        step in recovered.steps or not GOES_THROUGH[at, STEPS.index(step)]
        for step in (RecoveryStep.READ_SNAPSHOT, RecoveryStep.REPLAY)
    )


def _size(recovered: PastRecovery, step: RecoveryStep) -> float:
    return recovered.steps[step].size if step in recovered.steps else 0.0
