"""Past recoveries, each predicted from what had been measured before its failure.

A recovery counts in the tier that the secondary really had: one that gave way on a busy host, or was still being
restored, starts a query or reads a snapshot, whatever tier was wanted.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import TypeAlias

import numpy as np

from holdfast.ft_policies.prediction.calibration import Score, calibrate
from holdfast.ft_policies.prediction.estimators import Observation, Readiness
from holdfast.ft_policies.prediction.model import Bounds, RecoveryModel, StepTimings
from holdfast.ft_policies.prediction.steps import (
    GOES_THROUGH,
    STEPS,
    TIERS,
    WORST,
    FloatArray,
    Load,
    Moment,
    RecoveryStep,
)
from holdfast.ft_policies.tiers import Tier

LEAST_RATIO = 0.1  # of a recovery that was over at once

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
    detect_seconds: float = 0.0
    """How much of it was detection; 0 if that is not counted."""
    moment: Moment = WORST
    """When the next replica took over, between two epochs."""
    batch_seconds: float = 0.0
    """What an epoch took before the failure."""
    is_scored: bool = True
    """Whether it is known how much of it was waiting for an epoch to close; otherwise the rest is not known either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastPrediction:
    """A recovery and its prediction, calibrated by the recoveries before it."""

    recovered: PastRecovery
    seconds: float
    steps: Mapping[RecoveryStep, float] = field(default_factory=dict)


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
    load: Load,
    *,
    known_predictions: Sequence[PastPrediction] = (),
) -> list[PastPrediction]:
    """Predict each recovery, oldest first, for what there was to read and to replay, and for its moment.

    Capacity, rate and the time between two epochs are those of the present `load`. Recoveries that could not be
    predicted yet, or whose sizes are unknown, are left out. Of one that is among the `known_predictions` with the same
    steps, the prediction is kept: it follows from what was measured before.
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
        earlier = [past.recovered for past in predictions if past.recovered.at < recovery.lost_at]
        tier, counts = TIERS.index(recovery.tier), model.count_detection
        steps, seconds = model.seconds_for(
            bounds,
            replace(load, batch_seconds=recovery.batch_seconds or load.batch_seconds),
            bytes_to_read=_size(recovery, RecoveryStep.READ_SNAPSHOT),
            rows=_size(recovery, RecoveryStep.REPLAY),
            calibration=calibrate(
                score_recoveries(earlier, bounds, model, load),
                epoch_waits=recovery.moment.epoch_waits,
            ),
            moment=recovery.moment,
        )
        if 0 < seconds[tier] < inf and recovery.seconds > 0:
            parts = steps.of_tiers(count_detection=counts)[tier]
            predictions.append(
                PastPrediction(
                    recovered=recovery,
                    seconds=float(seconds[tier]),
                    steps={
                        step: float(part)
                        for step, part in zip(STEPS, parts, strict=True)
                        if part > 0
                    },
                )
            )
    return predictions


def score_recoveries(
    recovered: Sequence[PastRecovery], bounds: Bounds, model: RecoveryModel, load: Load
) -> list[Score]:
    """What the work of each took, by what the bounds of today say is typical for it.

    The typical times follow what was measured since: a tier is first predicted from colder drivers, and a score from
    then would say how wrong that was, not how much recoveries vary. Where it is not known how long the first commit
    waited for its epoch, the work is not known either, and there is no score.
    """
    scored = [past for past in recovered if past.is_scored and past.seconds > 0 and _is_sized(past)]
    if not scored:
        return []
    scores = []
    for recovery, typical in zip(scored, _typical_work(scored, bounds, model, load), strict=True):
        waited = model.seconds_to_epoch(bounds, load, recovery.moment)[TIERS.index(recovery.tier)]
        took = recovery.seconds - recovery.detect_seconds - float(waited)
        if 0 < typical < inf:
            scores.append(
                Score(
                    stream=recovery.stream,
                    tier=recovery.tier,
                    ratio=max(took / typical, LEAST_RATIO),
                    at=recovery.at,
                    epoch_waits=recovery.moment.epoch_waits,
                )
            )
    return scores


def _typical_work(
    recovered: Sequence[PastRecovery], bounds: Bounds, model: RecoveryModel, load: Load
) -> list[float]:
    """What the work of each takes half of the time."""

    def column(values: Iterable[float]) -> FloatArray:
        return np.array(list(values), dtype=np.float64)

    batches = column(past.batch_seconds for past in recovered)
    work = model.typical_work(
        bounds,
        replace(load, batch_seconds=np.where(batches > 0, batches, load.batch_seconds)),
        bytes_to_read=column(_size(past, RecoveryStep.READ_SNAPSHOT) for past in recovered)[
            :, np.newaxis
        ],
        rows=column(_size(past, RecoveryStep.REPLAY) for past in recovered)[:, np.newaxis],
        epoch_waits=np.array([past.moment.epoch_waits for past in recovered])[:, np.newaxis],
    )
    tiers = [TIERS.index(past.tier) for past in recovered]
    return [float(seconds) for seconds in work[np.arange(len(tiers)), tiers]]


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
