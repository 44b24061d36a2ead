"""The recovery time of every tier from earlier timings, or that it cannot be predicted."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from holdfast.ft_policies.prediction.estimators import MaxOfHistory, Observation, Readiness
from holdfast.ft_policies.prediction.model import (
    Bounds,
    Prediction,
    RecoveryModel,
    StateAges,
    StepTimings,
)
from holdfast.ft_policies.prediction.steps import (
    TIERS,
    WORST,
    FloatArray,
    Load,
    Moment,
    RecoveryStep,
    recovery_seconds,
)
from holdfast.ft_policies.prediction.thesis import ThesisModel
from holdfast.ft_policies.tiers import Tier

LOAD = Load(
    rows_per_second=100.0, capacity_rows_per_second=400.0, state_bytes=1e7, epoch_seconds=1.0
)
AGES = StateAges(snapshot=10.0, sync=5.0)
WARM = {
    RecoveryStep.DETECT: 0.5,
    RecoveryStep.READ_SNAPSHOT: 1.0,
    RecoveryStep.WIRE_RECEIVE: 2.0,
    RecoveryStep.WIRE_SEND: 0.2,
    RecoveryStep.REPLAY: 3.0,
}
COLD = {step: 2.0 * seconds for step, seconds in WARM.items()} | {RecoveryStep.DEPLOY: 8.0}
MAXIMA = RecoveryModel(estimator=MaxOfHistory())


def step_timings(
    *, warm: bool = True, cold: bool = True, without: str = "", count: int = 5
) -> StepTimings:
    steps: dict[RecoveryStep, list[Observation]] = {}
    for step in RecoveryStep:
        kinds = [(COLD, True)] * cold + [(WARM, False)] * warm
        steps[step] = [
            Observation(
                seconds=seconds[step],
                readiness=Readiness.COLD if is_cold else Readiness.WARM,
                at=at,
            )
            for seconds, is_cold in kinds
            if step in seconds and step != without
            for at in range(count)
        ]
    return StepTimings(steps=steps)


def of(prediction: Prediction) -> dict[Tier, float]:
    return dict(zip(TIERS, prediction.seconds.tolist(), strict=True))


def test_cold_observations_are_for_a_launch_and_warm_ones_for_the_rest() -> None:
    assert of(MAXIMA.predict_at(step_timings(), LOAD, AGES)) == pytest.approx(
        {
            Tier.ACTIVE_REPLICATION: 1.0,
            Tier.ACTIVE_STANDBY: 1.7,  # it has processed all: only the next epoch has to close
            Tier.PASSIVE_STANDBY_HOT: 4.7,
            Tier.PASSIVE_STANDBY_COLD: 6.5,
            Tier.DEPLOYED: 7.5,
            Tier.PASSIVE_REPLICATION: 22.0,
        }
    )


def test_cold_observations_may_stand_for_warm_ones() -> None:
    prediction = MAXIMA.predict_at(step_timings(warm=False), LOAD, AGES)
    assert of(prediction)[Tier.DEPLOYED] == pytest.approx(14.0)
    assert prediction.enough
    assert prediction.missing == ()


def test_warm_observations_say_nothing_about_a_launch() -> None:
    prediction = MAXIMA.predict_at(step_timings(cold=False), LOAD, AGES)
    assert of(prediction)[Tier.PASSIVE_REPLICATION] == np.inf
    assert of(prediction)[Tier.DEPLOYED] == pytest.approx(7.5)
    assert prediction.enough
    assert set(prediction.missing) == set(RecoveryStep) - {RecoveryStep.FIRST_COMMIT}


def test_a_step_that_was_never_measured_rules_out_who_needs_it() -> None:
    timings = step_timings(without=RecoveryStep.READ_SNAPSHOT)
    prediction = RecoveryModel().predict_at(timings, LOAD, AGES)
    assert np.isfinite(prediction.seconds).tolist() == [True, True, True, True, False, False]
    assert prediction.missing == (RecoveryStep.READ_SNAPSHOT,)


def test_until_a_snapshot_was_read_what_it_took_to_write_one_stands_for_that() -> None:
    timings = step_timings(without=RecoveryStep.READ_SNAPSHOT)
    written = replace(
        timings, writes=[Observation(seconds=2.0, size=5e6), Observation(seconds=0.5)]
    )
    small, large = (
        of(MAXIMA.predict_at(written, LOAD, AGES)),
        RecoveryModel().predict_at(written, replace(LOAD, state_bytes=5e8), AGES).seconds,
    )
    without = of(MAXIMA.predict_at(step_timings(), LOAD, AGES))
    assert small[Tier.DEPLOYED] == pytest.approx(without[Tier.DEPLOYED] - 1.0 + 2.0)
    assert small[Tier.PASSIVE_REPLICATION] == without[Tier.PASSIVE_REPLICATION]
    assert np.isfinite(large).all()
    assert (large[4:] > 200.0).all(), "5 MB took 2 s"


def test_nothing_measured_is_not_enough() -> None:
    prediction = RecoveryModel().predict_at(StepTimings(steps={}), LOAD, AGES)
    assert not prediction.enough
    assert prediction.seconds.tolist() == [LOAD.epoch_seconds] + [np.inf] * 5
    assert prediction.missing == tuple(RecoveryStep)[:-1]


def test_a_stream_that_may_have_a_gap_needs_no_replay() -> None:
    timings = step_timings(without=RecoveryStep.REPLAY)
    gap = RecoveryModel().predict_at(timings, LOAD, AGES, precise=False)
    assert np.isfinite(gap.seconds).all()


def test_the_oldest_state_is_an_interval_old_and_what_it_takes_to_arrive() -> None:
    ages = StateAges.oldest(
        snapshot_every=30.0,
        sync_every=5.0,
        ship_seconds=2.0,
        sync_seconds=1.0,
        epoch_seconds=0.5,
    )
    assert float(ages.snapshot) == 32.5
    assert float(ages.sync) == 8.5
    lazy = StateAges.oldest(snapshot_every=3.0, sync_every=60.0, ship_seconds=0.0)
    assert float(lazy.sync) == 3.0  # whatever is shipped is synced


def replays_by_rows() -> StepTimings:
    """A second, and one more for 500 rows; reading takes a second for 10 MB."""
    steps = dict(step_timings().steps)
    steps[RecoveryStep.REPLAY] = [
        Observation(seconds=1.0 + rows / 500.0, size=rows, readiness=readiness, at=rows)
        for rows in (100.0, 300.0, 500.0, 1000.0, 2000.0, 3000.0)
        for readiness in (Readiness.COLD, Readiness.WARM)
    ]
    steps[RecoveryStep.READ_SNAPSHOT] = [
        Observation(seconds=size / 1e7, size=size, readiness=readiness, at=size)
        for size in (1e6, 1e7, 5e7, 1e8)
        for readiness in (Readiness.COLD, Readiness.WARM)
    ]
    return StepTimings(steps=steps)


BY_ROWS = Bounds.of(RecoveryModel().lines(replays_by_rows()))


def test_longer_intervals_take_longer_where_they_matter() -> None:
    prediction = RecoveryModel().predict(
        replays_by_rows(),
        LOAD,
        snapshot_every=np.array([5.0, 10.0, 30.0]),
        sync_every=5.0,
        ship_seconds=0.1,
    )
    assert prediction.seconds.shape == (3, 6)
    assert (np.diff(prediction.seconds[:, 4:], axis=0) > 0).all()
    assert (np.ptp(prediction.seconds[:, :4], axis=0) < 1e-9).all()


def test_the_steps_add_up_to_what_is_predicted() -> None:
    prediction = RecoveryModel().predict_at(replays_by_rows(), LOAD, AGES)
    assert recovery_seconds(prediction.steps) == pytest.approx(prediction.seconds)


def test_steps_are_not_all_at_their_worst_at_once() -> None:
    apart, alike = (
        RecoveryModel(correlation=c).predict_at(step_timings(count=1), LOAD, AGES).seconds
        for c in (0.0, 1.0)
    )
    typical = MAXIMA.predict_at(step_timings(count=1), LOAD, AGES).seconds
    assert (apart[1:] < alike[1:]).all()
    assert (apart[1:] > typical[1:]).all()


def test_many_streams_at_once_are_predicted_as_each_alone() -> None:
    model, histories = (
        RecoveryModel(),
        [step_timings(), replays_by_rows(), step_timings(cold=False)],
    )
    rates, sizes = np.array([[50.0], [100.0], [500.0]]), np.array([[1e6], [5e7], [1e8]])
    ages = StateAges(snapshot=np.array([5.0, 20.0]), sync=5.0)
    bounds = Bounds.stack(Bounds.of(model.lines(timings)) for timings in histories)
    loads = Load(
        rows_per_second=rates, capacity_rows_per_second=1e3, state_bytes=sizes, epoch_seconds=1.0
    )
    precise = np.array([[True], [False], [True]])
    _, together = model.seconds(bounds, loads, ages, precise=precise)
    assert together.shape == (3, 2, 6)
    for at, timings in enumerate(histories):
        load = Load(
            rows_per_second=float(rates[at, 0]),
            capacity_rows_per_second=1e3,
            state_bytes=float(sizes[at, 0]),
            epoch_seconds=1.0,
        )
        alone = model.predict_at(timings, load, ages, precise=bool(precise[at, 0]))
        assert together[at] == pytest.approx(alone.seconds)


@given(st.floats(0, 1e4), st.floats(0, 1e9), st.floats(0, 300), st.floats(1.0, 10.0))
def test_more_load_state_or_age_never_make_a_recovery_shorter(
    rate: float, state: float, age: float, more: float
) -> None:
    def predicted(by: float) -> FloatArray:
        load = Load(
            rows_per_second=by * rate,
            capacity_rows_per_second=1e5,
            state_bytes=by * state,
            epoch_seconds=1.0,
        )
        ages = StateAges(snapshot=by * age, sync=by * age)
        return RecoveryModel().seconds(BY_ROWS, load, ages)[1]

    assert (predicted(more) >= predicted(1.0) - 1e-6).all()


def test_more_rows_than_were_ever_replayed_take_what_a_driver_at_its_best_takes_for_each() -> None:
    alike = [Observation(seconds=4.0, size=900.0 + at, at=at) for at in range(3)]
    timings = StepTimings(steps={**step_timings().steps, RecoveryStep.REPLAY: alike})

    def replay(rows_per_second: float, capacity: float) -> float:
        load = replace(LOAD, rows_per_second=rows_per_second, capacity_rows_per_second=capacity)
        steps = RecoveryModel().predict_at(timings, load, AGES).steps
        return float(np.asarray(steps.replay)[TIERS.index(Tier.DEPLOYED)])

    at_seen = replay(90.0, 1000.0)
    assert at_seen + 3.0 < replay(400.0, 1000.0) < at_seen + 6.0
    assert replay(400.0, 0.0) > 3.5 * at_seen  # the capacity is unknown: in proportion


WRITES = [Observation(seconds=1.0, size=5e6), Observation(seconds=1.0, size=2e6)]


def test_the_thesis_model_is_the_thesis_one() -> None:
    timings = StepTimings(steps=step_timings().steps, writes=WRITES)
    prediction = ThesisModel().predict(timings, LOAD, rows_since_snapshot=350.0)
    replay, read = 3.5, 1e7 / 2e6
    assert of(prediction) == pytest.approx(
        {
            Tier.ACTIVE_REPLICATION: 0.0,
            Tier.ACTIVE_STANDBY: 0.4 + replay,
            Tier.PASSIVE_STANDBY_HOT: 0.4 + replay,
            Tier.PASSIVE_STANDBY_COLD: 4.0 + replay,
            Tier.DEPLOYED: read + 4.0 + replay,
            Tier.PASSIVE_REPLICATION: 8.0 + read + 4.0 + replay,
        }
    )
    assert prediction.missing == ()
    gap = ThesisModel().predict(timings, LOAD, rows_since_snapshot=350.0, precise=False)
    assert prediction.seconds - gap.seconds == pytest.approx([0.0] + [replay] * 5)


def test_the_thesis_model_can_count_detection_and_lack_data() -> None:
    timings = step_timings(without=RecoveryStep.DETECT)
    counted = ThesisModel(count_detection=True).predict(timings, LOAD, rows_since_snapshot=0.0)
    assert counted.missing == (RecoveryStep.DETECT, RecoveryStep.READ_SNAPSHOT)
    assert not counted.enough
    assert ThesisModel().predict(timings, LOAD, rows_since_snapshot=0.0).enough


def test_a_stream_at_rest_has_nothing_or_no_end_to_replay() -> None:
    idle = Load(
        rows_per_second=0.0, capacity_rows_per_second=1e3, state_bytes=0.0, epoch_seconds=1.0
    )
    nothing = ThesisModel().predict(step_timings(), idle, rows_since_snapshot=0.0)
    some = ThesisModel().predict(step_timings(), idle, rows_since_snapshot=10.0)
    assert nothing.seconds[1] == pytest.approx(0.4)
    assert some.seconds[1] == np.inf


def test_a_step_is_predicted_from_drivers_that_were_as_ready_or_else_from_less_ready_ones() -> None:
    kinds = [Readiness.COLD, Readiness.BESIDE, Readiness.WARM, Readiness.RUNNING]
    every = [Observation(seconds=9.0 - readiness, readiness=readiness) for readiness in kinds]
    timings = StepTimings(steps={RecoveryStep.WIRE_RECEIVE: every})
    assert [timings.of(RecoveryStep.WIRE_RECEIVE, readiness) for readiness in kinds] == [
        [observation] for observation in every
    ]
    early = StepTimings(steps={RecoveryStep.WIRE_RECEIVE: every[:2]})
    assert early.of(RecoveryStep.WIRE_RECEIVE, Readiness.RUNNING) == [every[1]]
    late = StepTimings(steps={RecoveryStep.WIRE_RECEIVE: every[1:]})
    assert late.of(RecoveryStep.WIRE_RECEIVE, Readiness.COLD) == []


def test_who_started_beside_a_primary_shows_the_slope_that_few_takeovers_do_not() -> None:
    def replays(readiness: Readiness, *sizes: float) -> list[Observation]:
        return [Observation(seconds=2.0, size=size, readiness=readiness) for size in sizes]

    beside = replays(Readiness.BESIDE, 100.0, 900.0, 2400.0)
    few, many = replays(Readiness.WARM, 600.0), replays(Readiness.WARM, 600.0, 1200.0, 1800.0)
    early = StepTimings(
        steps={RecoveryStep.REPLAY: beside + few, RecoveryStep.WIRE_SEND: beside + few}
    )
    assert early.of(RecoveryStep.REPLAY, Readiness.WARM) == beside + few
    assert early.of(RecoveryStep.WIRE_SEND, Readiness.WARM) == few  # it has no size
    late = StepTimings(steps={RecoveryStep.REPLAY: beside + many})
    assert late.of(RecoveryStep.REPLAY, Readiness.WARM) == many


def test_the_first_new_commit_is_part_of_every_recovery() -> None:
    commits = [
        Observation(seconds=2.0, readiness=Readiness.WARM),
        Observation(seconds=9.0, readiness=Readiness.COLD),
    ]
    timings = StepTimings(steps={**step_timings().steps, RecoveryStep.FIRST_COMMIT: commits})
    predicted = of(MAXIMA.predict_at(timings, LOAD, AGES))
    assert predicted[Tier.DEPLOYED] == pytest.approx(8.5)
    assert predicted[Tier.PASSIVE_REPLICATION] == pytest.approx(30.0)


BATCHES = replace(LOAD, epoch_seconds=1.5, batch_seconds=0.4, longest_batch_seconds=0.6)


def at(moment: Moment, tier: Tier, timings: StepTimings | None = None) -> float:
    prediction = MAXIMA.predict_at(timings or step_timings(), BATCHES, AGES, moment=moment)
    return of(prediction)[tier]


def test_who_has_processed_all_waits_for_the_next_epoch_to_close_and_for_its_batch() -> None:
    """Whatever replays and first commits of less ready drivers took, or earlier ones at other moments."""
    commits = [
        Observation(seconds=9.0, readiness=Readiness.COLD),
        Observation(seconds=7.0, readiness=Readiness.SENDING),
    ]
    timings = StepTimings(steps={**step_timings().steps, RecoveryStep.FIRST_COMMIT: commits})
    for tier, detected in ((Tier.ACTIVE_REPLICATION, 0.0), (Tier.ACTIVE_STANDBY, 0.7)):
        assert at(WORST, tier, timings) == pytest.approx(detected + 1.5 + 0.6)
        assert at(Moment(epoch_age=0.5), tier, timings) == pytest.approx(detected + 1.0 + 0.6)
        assert at(Moment(epoch_age=9.0), tier, timings) == pytest.approx(detected + 0.6)
        waits = Moment(epoch_age=0.1, epoch_waits=True)
        assert at(waits, tier, timings) == pytest.approx(detected + 0.6)


def test_a_first_commit_is_not_predicted_faster_than_a_commit_is_now() -> None:
    commits = [
        Observation(seconds=0.4, readiness=readiness)
        for readiness in (Readiness.COLD, Readiness.SENDING)
    ]
    timings = StepTimings(steps={**step_timings().steps, RecoveryStep.FIRST_COMMIT: commits})

    def predicted(commit_seconds: float) -> dict[Tier, float]:
        load = replace(LOAD, batch_seconds=0.4, commit_seconds=commit_seconds)
        return of(MAXIMA.predict_at(timings, load, AGES))

    before, same, slower = predicted(0.0), predicted(0.3), predicted(1.4)
    assert same == before
    assert {tier: slower[tier] - before[tier] for tier in TIERS} == pytest.approx(
        dict.fromkeys(TIERS, 1.0)
    )


def test_an_epoch_that_was_decided_before_the_failure_is_committed_by_the_replay() -> None:
    commits = [Observation(seconds=2.0)]
    timings = StepTimings(steps={**step_timings().steps, RecoveryStep.FIRST_COMMIT: commits})
    awaited = at(WORST, Tier.PASSIVE_STANDBY_HOT, timings)
    assert awaited - at(Moment(epoch_waits=True), Tier.PASSIVE_STANDBY_HOT, timings) == 2.0


def test_a_failure_just_after_a_heartbeat_is_noticed_earlier_by_a_secondary() -> None:
    early = Moment(until_heartbeat=0.3)
    assert at(WORST, Tier.DEPLOYED) - at(early, Tier.DEPLOYED) == pytest.approx(0.3)
    passive = Tier.PASSIVE_REPLICATION
    assert at(early, passive) == at(WORST, passive), "a sensor looks when it is due"


def test_where_the_secondary_sends_the_pause_has_begun_with_the_last_sign_of_life() -> None:
    silent = Moment(silent_seconds=0.4)
    sending, standby = Tier.ACTIVE_REPLICATION, Tier.ACTIVE_STANDBY
    assert at(silent, sending) - at(WORST, sending) == pytest.approx(0.4)
    assert at(silent, standby) == at(WORST, standby), "there it is in the detection"


def test_a_long_replay_takes_a_batch_for_each_epoch_and_no_less_than_at_full_speed() -> None:
    assert float(LOAD.row_seconds) == 1 / 400.0
    slow = replace(LOAD, batch_seconds=0.5)  # for 100 rows
    assert float(slow.row_seconds) == 0.5 / 100.0
