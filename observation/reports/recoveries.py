"""The recoveries of a stream, compared with the predictions of the recovery model.

Each is predicted from the measurements before the failure, for the bytes and rows that there were to
read and to replay: so the model is judged, and not the age of the last decision.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.ft_policies.costs.report import Cell
from holdfast.ft_policies.costs.tier_spans import TierSpan
from holdfast.ft_policies.prediction.estimators import Observation, Readiness
from holdfast.ft_policies.prediction.model import StepTimings
from holdfast.ft_policies.prediction.past import (
    PastPrediction,
    PastRecovery,
    predict_past,
    tier_by_steps,
)
from holdfast.ft_policies.prediction.steps import Moment, RecoveryStep
from holdfast.ft_policies.tiers import SECONDARY, Tier
from holdfast.observation.measurements import RECENT_SECONDS, StreamMeasurements
from holdfast.observation.recovery_history import (
    MOST_UNCOMMITTED,
    SLACK_SECONDS,
    Recovery,
    add_promises,
)
from holdfast.observation.reports.costs import read_tier_spans
from holdfast.resources.control_store.sample_names import SampleName
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
            takeover_of=partial(read_takeover, store, declared.name),
        ),
        measured.step_timings,
        declared.controller.model(),
        partial(add_promises, timings=timings),
        measured.load,
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
    takeover_of: Callable[[Recovery], "Takeover"],
) -> list[PastRecovery]:
    """Match whole recoveries with the steps of that time, and with the tier that the stream had.

    A takeover is read where the secondary processed: there the steps do not show what the first commit waited for.
    """
    matched = []
    for recovery in observed:
        wanted = _tier_at(spans, recovery.at - recovery.seconds)
        processed = SECONDARY[wanted].process and not recovery.cold
        matched.append(
            match_recovery(
                stream,
                recovery,
                step_timings,
                wanted,
                takeover_of(recovery) if processed else Takeover(),
                count_detection=count_detection,
            )
        )
    return matched


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """The epochs around the end of a detection."""

    epoch_age: float | None = None
    """Seconds since the newest epoch was decided; `None` if that epoch has been pruned, or does not matter."""
    batch_seconds: float = 0.0
    """What an epoch took, on average, in the minute before the failure."""


def read_takeover(store: ControlStore, stream: str, recovery: Recovery) -> Takeover:
    """Read them from the epoch log, which is pruned long before the samples are."""
    lost_at = recovery.at - recovery.seconds
    taken_over_at = lost_at + recovery.detect_seconds
    committed = store.ledger.last_up_to(stream, taken_over_at)
    first = 0 if committed is None else committed.epoch
    decided = [
        epoch.decided_at
        for epoch in store.epochs.between(stream, first, first + MOST_UNCOMMITTED)
        if epoch.decided_at <= taken_over_at
    ]
    levels = store.recent.levels(
        [SampleName.BATCH_SECONDS], stream, since_at=lost_at - RECENT_SECONDS, until_at=lost_at
    )
    batch = levels.get(stream, {}).get(SampleName.BATCH_SECONDS)
    return Takeover(
        epoch_age=taken_over_at - max(decided) if decided else None,
        batch_seconds=0.0 if batch is None else batch.mean,
    )


def match_recovery(
    stream: str,
    recovery: Recovery,
    step_timings: StepTimings,
    wanted: Tier,
    takeover: Takeover,
    *,
    count_detection: bool,
) -> PastRecovery:
    """Match one recovery with its steps; `wanted` is the tier that the stream should have had."""
    steps = _steps(recovery, step_timings)
    tier = Tier.PASSIVE_REPLICATION if recovery.cold else tier_by_steps(wanted, steps)
    pauses = (
        tier is Tier.ACTIVE_REPLICATION
    )  # a pause between commits does not begin with a detection
    waits = not _awaited_epoch(recovery, step_timings)
    since_pause = recovery.detect_seconds if pauses and not waits else 0.0
    epoch_age = takeover.epoch_age
    return PastRecovery(
        stream=stream,
        at=recovery.at,
        lost_at=recovery.at - recovery.seconds,
        tier=tier,
        seconds=recovery.count_seconds(count_detection or pauses),
        detect_seconds=recovery.detect_seconds if count_detection and not pauses else 0.0,
        steps=steps,
        moment=Moment(
            epoch_age=0.0 if epoch_age is None else epoch_age - since_pause,
            epoch_waits=waits,
            silent_seconds=recovery.detect_seconds - since_pause,
        ),
        batch_seconds=takeover.batch_seconds,
        is_scored=waits or epoch_age is not None or not SECONDARY[tier].process,
    )


def _awaited_epoch(recovery: Recovery, step_timings: StepTimings) -> bool:
    """Whether the first new commit was of an epoch that closed after the takeover; a replay has committed any other."""
    return any(
        _is_during(recovery, observation) and observation.readiness is not Readiness.SENDING
        for observation in step_timings.steps.get(RecoveryStep.FIRST_COMMIT, ())
    )


def _steps(recovery: Recovery, step_timings: StepTimings) -> dict[RecoveryStep, Observation]:
    """The steps during a recovery, in the replica that took over or was launched."""
    return {
        step: observation
        for step, history in step_timings.steps.items()
        for observation in history
        if _is_during(recovery, observation)
    }


def _is_during(recovery: Recovery, observation: Observation) -> bool:
    begun, ended = recovery.at - recovery.seconds - SLACK_SECONDS, recovery.at + SLACK_SECONDS
    return begun <= observation.at <= ended and observation.cold is recovery.cold


def _tier_at(spans: Sequence[TierSpan], at: float) -> Tier:
    """The tier of the last span that began before a time."""
    before = [span for span in spans if span.from_at <= at]
    return before[-1].tier if before else Tier.PASSIVE_REPLICATION
