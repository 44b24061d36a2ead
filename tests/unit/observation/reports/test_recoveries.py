"""Recoveries as they were measured, beside what follows from what had been measured before."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from holdfast.assets.reports.model import summarize
from holdfast.ft_policies.costs.tier_spans import TierSpan
from holdfast.ft_policies.prediction.estimators import MaxOfHistory, Observation, Readiness
from holdfast.ft_policies.prediction.model import RecoveryModel, StepTimings
from holdfast.ft_policies.prediction.steps import RecoveryStep
from holdfast.ft_policies.tiers import Tier
from holdfast.observation.recovery_history import Recovery
from holdfast.observation.reports.recoveries import (
    MatchedRecovery,
    RecoveryComparison,
    compare_recoveries,
    match_recoveries,
)
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
MAXIMA = RecoveryModel(estimator=MaxOfHistory())
PROMISED = Observation(seconds=3.5)


def matched(*observed: Recovery, count_detection: bool = True) -> list[MatchedRecovery]:
    return match_recoveries("clicks", observed, TIMINGS, SPANS, count_detection=count_detection)


def promised(detected: Sequence[Observation]) -> Sequence[Observation]:
    return detected or [PROMISED]


def judged(*recovered: MatchedRecovery, model: RecoveryModel = MAXIMA) -> list[RecoveryComparison]:
    """A hot standby has replayed 500 rows before."""
    steps = {
        RecoveryStep.DETECT: [Observation(seconds=1.0, at=3_000.0)],
        RecoveryStep.WIRE_SEND: [Observation(seconds=0.5, at=1_000.0)],
        RecoveryStep.REPLAY: [
            Observation(seconds=5.0, size=500.0, at=1_000.0),
            Observation(seconds=7.5, size=1_500.0, at=3_000.0),
        ],
    }
    return compare_recoveries(recovered, StepTimings(steps=steps), model, promised, capacity=0.0)


def seconds(recovered: MatchedRecovery) -> dict[RecoveryStep, float]:
    return {step: observation.seconds for step, observation in recovered.steps.items()}


def again() -> MatchedRecovery:
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
    assert counted.predicted_seconds - uncounted.predicted_seconds == PROMISED.seconds
    assert "detect" not in [row["step"] for row in uncounted.cells()]


def test_whoever_was_launched_anew_was_recovered_passively_whatever_was_wanted() -> None:
    (recovery,) = matched(RESTARTED)
    assert recovery.tier is PASSIVE
    assert seconds(recovery) == {
        RecoveryStep.DETECT: 20.0,
        RecoveryStep.DEPLOY: 9.0,
        RecoveryStep.REPLAY: 4.0,
    }


def test_only_what_was_measured_before_the_failure_makes_the_prediction() -> None:
    (recovery,) = judged(again())
    assert recovery.predicted_seconds == PROMISED.seconds + 0.5 + 5.0
    assert [(row["step"], row["held"]) for row in recovery.cells()] == [
        ("all", True),
        ("detect", True),
        ("replay", False),
    ]
    assert judged(replace(again(), lost_at=999.0)) == [], "no replay had been measured by then"


def test_it_is_predicted_for_as_much_as_there_was_to_replay() -> None:
    (recovery,) = judged(again(), model=RecoveryModel())
    few = replace(again().steps[RecoveryStep.REPLAY], size=100.0)
    (less,) = judged(replace(again(), steps={RecoveryStep.REPLAY: few}), model=RecoveryModel())
    assert (
        recovery.predicted_steps[RecoveryStep.REPLAY]
        > 2.5 * less.predicted_steps[RecoveryStep.REPLAY]
    )
    assert sum(recovery.predicted_steps.values()) == pytest.approx(recovery.predicted_seconds)
    assert judged(replace(again(), steps={})) == [], "the sizes are unknown"


def test_in_active_replication_there_is_nothing_to_recover_nor_to_judge() -> None:
    at_once = Recovery(seconds=0.0, detect_seconds=3.0, at=1_000.0)
    spans = [TierSpan(tier=Tier.ACTIVE_REPLICATION, from_at=0.0, to_at=9_000.0)]
    (recovery,) = match_recoveries("clicks", [at_once], TIMINGS, spans, count_detection=False)
    assert (recovery.tier, recovery.seconds) == (Tier.ACTIVE_REPLICATION, 0.0)
    assert judged(recovery) == []


def test_tiers_and_steps_are_summed_up() -> None:
    rows = [row for seconds in (4.0, 5.0, 9.0) for row in a_recovery(seconds).cells()]
    whole = next(row for row in summarize(rows) if row["step"] == "all")
    assert (whole["tier"], whole["recoveries"]) == (HOT.value, 3)
    assert whole["held_share"] == 2 / 3
    assert (whole["median_predicted_seconds"], whole["median_observed_seconds"]) == (6.0, 5.0)
