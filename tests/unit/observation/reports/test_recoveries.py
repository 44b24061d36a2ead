"""Recoveries as they were measured, beside what follows from what had been measured before."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from holdfast.assets.reports.model import summarize
from holdfast.ft_policies.costs.tier_spans import TierSpan
from holdfast.ft_policies.prediction.estimators import MaxOfHistory, Observation, Readiness
from holdfast.ft_policies.prediction.model import RecoveryModel, StepTimings
from holdfast.ft_policies.prediction.past import PastPrediction, PastRecovery, predict_past
from holdfast.ft_policies.prediction.steps import RecoveryStep
from holdfast.ft_policies.tiers import Tier
from holdfast.observation.recovery_history import Recovery
from holdfast.observation.reports.recoveries import build_comparison, match_recoveries
from tests.builders.reports import a_recovery

HOT, ACTIVE, PASSIVE = (
    Tier.PASSIVE_STANDBY_HOT,
    Tier.ACTIVE_STANDBY,
    Tier.PASSIVE_REPLICATION,
)
SPANS = [
    TierSpan(tier=ACTIVE, from_at=0.0, to_at=1_500.0),
    TierSpan(tier=HOT, from_at=1_500.0, to_at=9_000.0),
]
TIMINGS = StepTimings(
    steps={
        RecoveryStep.DETECT: (
            Observation(seconds=3.5),  # what the lease promises, without a time
            Observation(seconds=1.5, at=996.5),
            Observation(seconds=20.0, at=1_985.0, readiness=Readiness.COLD),
        ),
        RecoveryStep.DEPLOY: (Observation(seconds=9.0, at=1_994.0, readiness=Readiness.COLD),),
        RecoveryStep.REPLAY: (
            Observation(seconds=2.0, at=1_000.5),
            Observation(seconds=4.0, at=2_000.0, readiness=Readiness.COLD),
        ),
    }
)
TAKEN_OVER = Recovery(seconds=4.0, detect_seconds=1.5, at=1_000.0)
RESTARTED = Recovery(seconds=35.0, detect_seconds=20.0, at=2_000.0, cold=True)
AGAIN = Recovery(seconds=9.0, detect_seconds=1.0, at=3_000.0)
MAXIMA = RecoveryModel(estimator=MaxOfHistory(), uncalibrated_margin=0.0)
PROMISED = Observation(seconds=3.5)


def matched(*observed: Recovery, count_detection: bool = True) -> list[PastRecovery]:
    return match_recoveries("clicks", observed, TIMINGS, SPANS, count_detection=count_detection)


def promised(detected: Sequence[Observation]) -> Sequence[Observation]:
    return detected or [PROMISED]


def judged(
    *recovered: PastRecovery,
    model: RecoveryModel = MAXIMA,
    past: Sequence[PastPrediction] = (),
) -> list[PastPrediction]:
    """A hot standby has replayed 500 rows before."""
    steps = {
        RecoveryStep.DETECT: [Observation(seconds=1.0, at=3_000.0)],
        RecoveryStep.WIRE_SEND: [Observation(seconds=0.5, at=1_000.0)],
        RecoveryStep.REPLAY: [
            Observation(seconds=5.0, size=500.0, at=1_000.0),
            Observation(seconds=7.5, size=1_500.0, at=3_000.0),
        ],
    }
    timings = StepTimings(steps=steps)
    return predict_past(
        recovered,
        timings,
        model,
        promised,
        capacity=0.0,
        next_commit_seconds=0.0,
        known_predictions=past,
    )


def seconds(recovered: PastRecovery) -> dict[RecoveryStep, float]:
    return {step: observation.seconds for step, observation in recovered.steps.items()}


def again() -> PastRecovery:
    """The same hot standby, with three times as many."""
    replay = Observation(seconds=7.5, size=1_500.0, at=3_000.0)
    steps = {RecoveryStep.DETECT: Observation(seconds=1.0), RecoveryStep.REPLAY: replay}
    return replace(matched(AGAIN)[0], steps=steps)


def test_a_takeover_has_the_tier_of_that_time_and_its_own_steps() -> None:
    (recovery,) = matched(TAKEN_OVER)
    assert (recovery.tier, recovery.seconds, recovery.lost_at) == (ACTIVE, 4.0, 996.0)
    assert seconds(recovery) == {RecoveryStep.DETECT: 1.5, RecoveryStep.REPLAY: 2.0}


def test_who_does_not_count_detection_does_not_observe_it_either() -> None:
    (recovery,) = matched(TAKEN_OVER, count_detection=False)
    assert (recovery.seconds, recovery.lost_at) == (2.5, 996.0)
    (counted,) = judged(again())
    (uncounted,) = judged(again(), model=replace(MAXIMA, count_detection=False))
    assert counted.seconds - uncounted.seconds == PROMISED.seconds
    assert "detect" not in [row["step"] for row in build_comparison(uncounted)]


def test_what_was_launched_again_was_recovered_passively_whatever_was_wanted() -> None:
    (recovery,) = matched(RESTARTED)
    assert recovery.tier is PASSIVE
    assert seconds(recovery) == {
        RecoveryStep.DETECT: 20.0,
        RecoveryStep.DEPLOY: 9.0,
        RecoveryStep.REPLAY: 4.0,
    }


def test_only_what_was_measured_before_the_failure_makes_the_prediction() -> None:
    (recovery,) = judged(again())
    assert recovery.seconds == PROMISED.seconds + 0.5 + 5.0
    assert [(row["step"], row["held"]) for row in build_comparison(recovery)] == [
        ("all", True),
        ("detect", True),
        ("replay", False),
    ]
    assert judged(replace(again(), lost_at=999.0)) == [], "no replay had been measured by then"


def test_it_is_predicted_for_as_much_as_there_was_to_replay() -> None:
    (recovery,) = judged(again(), model=RecoveryModel())
    few = replace(again().steps[RecoveryStep.REPLAY], size=100.0)
    (less,) = judged(replace(again(), steps={RecoveryStep.REPLAY: few}), model=RecoveryModel())
    assert recovery.steps[RecoveryStep.REPLAY] > 2.5 * less.steps[RecoveryStep.REPLAY]
    assert sum(recovery.steps.values()) == pytest.approx(recovery.seconds)
    assert judged(replace(again(), steps={})) == [], "the sizes are unknown"


def test_a_recovery_is_predicted_again_only_if_its_steps_have_changed() -> None:
    (judged_again,) = judged(again())
    kept = replace(judged_again, seconds=123.0)
    assert judged(again(), past=[kept]) == [kept]
    more = {**again().steps, RecoveryStep.WIRE_SEND: Observation(seconds=0.5, at=3_000.0)}
    (renewed,) = judged(replace(again(), steps=more), past=[kept])
    assert renewed.seconds == judged_again.seconds
    later = replace(again(), at=3_500.0, lost_at=3_491.0)
    assert [past.recovered.at for past in judged(later, again(), past=[kept])] == [
        3_000.0,
        3_500.0,
    ]


ALWAYS_ACTIVE = [TierSpan(tier=Tier.ACTIVE_REPLICATION, from_at=0.0, to_at=9_000.0)]


def a_pause(seconds: float, at: float) -> Observation:
    return Observation(seconds=seconds, readiness=Readiness.SENDING, at=at)


def test_active_replication_is_predicted_by_its_earlier_pauses() -> None:
    timings = StepTimings(
        steps={RecoveryStep.FIRST_COMMIT: [a_pause(2.5, 1_000.0), a_pause(3.0, 2_000.0)]}
    )
    pauses = [
        Recovery(seconds=2.5, detect_seconds=0.5, at=1_000.0),
        Recovery(seconds=3.0, detect_seconds=0.5, at=2_000.0),
    ]
    recovered = match_recoveries("clicks", pauses, timings, ALWAYS_ACTIVE, count_detection=False)
    first, second = predict_past(
        recovered, timings, MAXIMA, promised, capacity=0.0, next_commit_seconds=1.5
    )
    assert (first.recovered.tier, first.recovered.seconds) == (Tier.ACTIVE_REPLICATION, 2.5)
    assert first.seconds == 1.5, "an epoch, until a pause was measured"
    assert second.seconds == 2.5


def test_a_secondary_that_was_not_as_ready_as_wanted_counts_in_the_tier_that_it_had() -> None:
    recovery = Recovery(seconds=6.0, detect_seconds=0.5, at=1_000.0)

    def tier(**steps: Observation) -> Tier:
        timings = StepTimings(steps={RecoveryStep(step): [took] for step, took in steps.items()})
        [matched] = match_recoveries(
            "clicks", [recovery], timings, ALWAYS_ACTIVE, count_detection=True
        )
        return matched.tier

    a_step = Observation(seconds=1.0, at=999.0)
    assert tier(first_commit=a_pause(1.0, 999.0)) is Tier.ACTIVE_REPLICATION
    assert tier(replay=a_step) is Tier.ACTIVE_STANDBY, "it did not send yet"
    assert tier(wire_receive=a_step) is Tier.PASSIVE_STANDBY_COLD, "it gave way on a busy host"
    assert tier(read_snapshot=a_step) is Tier.DEPLOYED


def test_tiers_and_steps_are_summed_up() -> None:
    rows = [row for seconds in (4.0, 5.0, 9.0) for row in build_comparison(a_recovery(seconds))]
    whole = next(row for row in summarize(rows) if row["step"] == "all")
    assert (whole["tier"], whole["recoveries"]) == (HOT.value, 3)
    assert whole["held_share"] == 2 / 3
    assert (whole["median_predicted_seconds"], whole["median_observed_seconds"]) == (6.0, 5.0)
