"""The recoveries of a stream, compared with the predictions of the recovery model.

Each is predicted from the measurements before the failure, for the bytes and rows that there were to
read and to replay: so the model is judged, and not the age of the last decision.
"""

from collections.abc import Sequence
from functools import partial

from holdfast.configs.stream import StreamDeclaration
from holdfast.ft_policies.costs.report import Cell
from holdfast.ft_policies.costs.tier_spans import TierSpan
from holdfast.ft_policies.prediction.estimators import Observation
from holdfast.ft_policies.prediction.model import StepTimings
from holdfast.ft_policies.prediction.past import (
    PastPrediction,
    PastRecovery,
    predict_past,
    tier_by_steps,
)
from holdfast.ft_policies.prediction.steps import RecoveryStep
from holdfast.ft_policies.tiers import Tier
from holdfast.observation.measurements import StreamMeasurements
from holdfast.observation.recovery_history import SLACK_SECONDS, Recovery, add_promises
from holdfast.observation.reports.costs import read_tier_spans
from holdfast.resources.control_store.store import ControlStore

MOST_RECOVERIES = 100  # of a stream, the newest: each needs a prediction of its own


def predict_recoveries(
    store: ControlStore,
    declared: StreamDeclaration,
    measured: StreamMeasurements,
    known_predictions: Sequence[PastPrediction] = (),
) -> list[PastPrediction]:
    """Predict the newest recoveries of a stream, each as it would have been before its failure.

    The `known_predictions`, made under the same declaration, are not made again.
    """
    if not measured.recoveries:
        return []
    counts, timings = declared.controller.count_detection, declared.supervision.timings()
    return predict_past(
        match_recoveries(
            declared.name,
            measured.recoveries[-MOST_RECOVERIES:],
            measured.step_timings,
            read_tier_spans(store, declared.name, timings, until=measured.at),
            count_detection=counts,
        ),
        measured.step_timings,
        declared.controller.model(),
        partial(add_promises, timings=timings),
        capacity=float(measured.load.capacity_rows_per_second),
        next_commit_seconds=float(measured.load.next_commit_seconds),
        known_predictions=known_predictions,
    )


def build_comparison(prediction: PastPrediction) -> list[dict[str, Cell]]:
    """A row for the whole recovery, and a row for each step that was both predicted and measured."""
    recovered = prediction.recovered
    steps = [
        (step.value, prediction.steps[step], observation.seconds)
        for step, observation in recovered.steps.items()
        if step in prediction.steps
    ]
    return [
        {
            "stream": recovered.stream,
            "at": recovered.at,
            "tier": recovered.tier.value,
            "step": step,
            "predicted_seconds": predicted,
            "observed_seconds": observed,
            "held": observed <= predicted,
        }
        for step, predicted, observed in (
            ("all", prediction.seconds, recovered.seconds),
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
) -> list[PastRecovery]:
    """Match whole recoveries with the steps of that time, and with the tier that the stream had."""
    return [
        match_recovery(
            stream,
            recovery,
            step_timings,
            _tier_at(spans, recovery.at - recovery.seconds),
            count_detection=count_detection,
        )
        for recovery in observed
    ]


def match_recovery(
    stream: str,
    recovery: Recovery,
    step_timings: StepTimings,
    wanted: Tier,
    *,
    count_detection: bool,
) -> PastRecovery:
    """Match one recovery with its steps; `wanted` is the tier that the stream should have had."""
    steps = _steps(recovery, step_timings)
    tier = Tier.PASSIVE_REPLICATION if recovery.cold else tier_by_steps(wanted, steps)
    pauses = (
        tier is Tier.ACTIVE_REPLICATION
    )  # a pause between commits does not begin with a detection
    return PastRecovery(
        stream=stream,
        at=recovery.at,
        lost_at=recovery.at - recovery.seconds,
        tier=tier,
        seconds=recovery.count_seconds(count_detection or pauses),
        steps=steps,
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
