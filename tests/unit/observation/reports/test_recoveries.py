"""Recoveries as they were measured, beside what follows from what had been measured before."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.assets.reports.model import summarize
from holdfast.ft_policies.costs.tier_spans import TierSpan
from holdfast.ft_policies.prediction.calibration import Score
from holdfast.ft_policies.prediction.estimators import MaxOfHistory, Observation, Readiness
from holdfast.ft_policies.prediction.model import RecoveryModel, StepTimings
from holdfast.ft_policies.prediction.past import (
    PastPrediction,
    PastRecovery,
    predict_past,
    score_recoveries,
)
from holdfast.ft_policies.prediction.steps import Load, RecoveryStep
from holdfast.ft_policies.tiers import Tier
from holdfast.observation.recovery_history import Recovery
from holdfast.observation.reports.recoveries import (
    Takeover,
    build_comparison,
    match_recoveries,
    read_takeover,
)
from holdfast.resources.control_store.records import Sample
from holdfast.resources.control_store.sample_names import SampleName
from tests.builders.reports import a_recovery
from tests.builders.streams import CLICKS, a_wanted_stream, decide_epoch
from tests.fakes.projects import simulated_projects

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
    return match_recoveries(
        "clicks",
        observed,
        TIMINGS,
        SPANS,
        count_detection=count_detection,
        takeover_of=lambda _: Takeover(),
    )


IDLE = Load(rows_per_second=0.0, capacity_rows_per_second=0.0, state_bytes=0.0, epoch_seconds=0.0)


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
        IDLE,
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


def test_a_pause_in_active_replication_is_predicted_by_its_moment_and_a_batch() -> None:
    """It began 0.5 s before the takeover; then an epoch waited, or the next closed 0.9 s later."""
    awaited = Observation(seconds=1.3, readiness=Readiness.RUNNING, at=2_000.0)
    commits = [awaited, a_pause(0.9, 1_000.0), a_pause(1.8, 2_000.0)]
    timings = StepTimings(steps={RecoveryStep.FIRST_COMMIT: commits})
    waiting, closing = match_recoveries(
        "clicks",
        [
            Recovery(seconds=0.9, detect_seconds=0.5, at=1_000.0),
            Recovery(seconds=1.8, detect_seconds=0.5, at=2_000.0),
        ],
        timings,
        ALWAYS_ACTIVE,
        count_detection=False,
        takeover_of=lambda _: Takeover(epoch_age=0.6, batch_seconds=0.4),
    )
    load = replace(IDLE, epoch_seconds=1.5)
    first, second = predict_past([waiting, closing], timings, MAXIMA, promised, load)
    assert (first.recovered.tier, first.recovered.seconds) == (Tier.ACTIVE_REPLICATION, 0.9)
    assert (first.seconds, second.seconds) == pytest.approx((0.5 + 0.4, 0.5 + 0.9 + 0.4))
    bounds = MAXIMA.fit(timings).bounds
    scores = score_recoveries([waiting, closing], bounds, MAXIMA, load)
    assert [score.ratio for score in scores] == pytest.approx([0.8, 0.8], rel=0.3)
    assert [score.epoch_waits for score in scores] == [True, False]


def test_a_secondary_that_was_not_as_ready_as_wanted_counts_in_the_tier_that_it_had() -> None:
    recovery = Recovery(seconds=6.0, detect_seconds=0.5, at=1_000.0)

    def tier(**steps: Observation) -> Tier:
        timings = StepTimings(steps={RecoveryStep(step): [took] for step, took in steps.items()})
        [matched] = match_recoveries(
            "clicks",
            [recovery],
            timings,
            ALWAYS_ACTIVE,
            count_detection=True,
            takeover_of=lambda _: Takeover(),
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


def test_a_takeover_knows_the_epoch_under_way_and_what_a_batch_took_before(tmp_path: Path) -> None:
    with simulated_projects(tmp_path).open() as project:
        store = project.store
        a_wanted_stream(project)
        lost_at = store.now() + 1.0
        recovery = Recovery(seconds=3.0, detect_seconds=0.5, at=lost_at + 3.0)
        assert read_takeover(store, CLICKS, recovery) == Takeover(), "nothing is known"
        decide_epoch(project, 0)
        epoch = store.epochs.get(CLICKS, 0)
        assert epoch is not None
        for seconds, at in ((0.4, lost_at - 5.0), (0.6, lost_at - 0.5), (9.0, lost_at + 1.0)):
            sample = Sample(
                stream=CLICKS, replica="p", name=SampleName.BATCH_SECONDS, value=seconds, at=at
            )
            store.samples.write([sample])
        taken_over = read_takeover(store, CLICKS, recovery)
        assert taken_over.epoch_age == pytest.approx(lost_at + 0.5 - epoch.decided_at)
        assert taken_over.batch_seconds == pytest.approx(0.5)
        earlier = Recovery(seconds=3.0, detect_seconds=0.5, at=epoch.decided_at)
        assert read_takeover(store, CLICKS, earlier).epoch_age is None, "it was decided later"


def test_a_takeover_whose_epochs_have_been_pruned_calibrates_nothing() -> None:
    """How long it waited for an epoch is unknown: if for a whole one, hardly any work would be left of it."""
    awaited = Observation(seconds=0.7, readiness=Readiness.RUNNING, at=1_000.0)

    def scores(epoch_age: float | None, *commits: Observation) -> list[Score]:
        timings = StepTimings(steps={RecoveryStep.FIRST_COMMIT: commits})
        recovered = match_recoveries(
            "clicks",
            [Recovery(seconds=0.9, detect_seconds=0.5, at=1_000.0)],
            timings,
            ALWAYS_ACTIVE,
            count_detection=False,
            takeover_of=lambda _: Takeover(epoch_age=epoch_age, batch_seconds=0.4),
        )
        bounds, load = MAXIMA.fit(timings).bounds, replace(IDLE, epoch_seconds=1.5)
        return score_recoveries(recovered, bounds, MAXIMA, load)

    pause = a_pause(0.9, 1_000.0)
    assert len(scores(1.5, awaited, pause)) == 1
    assert scores(None, awaited, pause) == []
    assert len(scores(None, pause)) == 1, "an epoch waited, so nothing else was waited for"
