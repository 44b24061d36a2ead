"""Calibration: predictions that at least 99 of 100 recoveries stay under, whatever the steps leave out."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, strategies as st

from holdfast.ft_policies.prediction.calibration import (
    FEWEST_RECOVERIES,
    UNCALIBRATED,
    Calibration,
    Score,
    calibrate,
    newest_scores,
)
from holdfast.ft_policies.prediction.estimators import Observation, Readiness
from holdfast.ft_policies.prediction.model import RecoveryModel, StepTimings
from holdfast.ft_policies.prediction.past import (
    PastRecovery,
    predict_past,
    score_recoveries,
    select_timings_before,
)
from holdfast.ft_policies.prediction.steps import (
    TIERS,
    FloatArray,
    Load,
    Moment,
    RecoveryStep,
    StepSeconds,
)
from holdfast.ft_policies.tiers import Tier

IDLE = Load(rows_per_second=0.0, capacity_rows_per_second=0.0, state_bytes=0.0, epoch_seconds=0.0)
HOT = Tier.PASSIVE_STANDBY_HOT
AT = TIERS.index(HOT)
Draw = Callable[[np.random.Generator, int], FloatArray]


def scores(*ratios: float, tier: Tier = HOT, stream: str = "clicks") -> list[Score]:
    return [
        Score(tier=tier, ratio=ratio, at=float(at), stream=stream)
        for at, ratio in enumerate(ratios)
    ]


def factor(*ratios: float) -> float:
    return float(calibrate(scores(*ratios)).factor[AT])


def lognormal(spread: float) -> Draw:
    return lambda random, count: np.exp(random.normal(0.0, spread, count))


def phases(random: np.random.Generator, count: int) -> FloatArray:
    """An epoch that closes at any moment: bounded, and not at all lognormal."""
    return random.uniform(0.6, 1.4, count)


def now_and_then_twice_as_slow(random: np.random.Generator, count: int) -> FloatArray:
    slow = np.where(random.random(count) < 0.05, 2.0, 1.0)
    return np.exp(random.normal(0.0, 0.08, count)) * slow


@pytest.mark.parametrize(
    ("draw", "covered", "most"),
    [
        (lognormal(0.05), 0.99, 1.35),
        (lognormal(0.1), 0.985, 1.4),
        (lognormal(0.2), 0.975, 1.75),
        (phases, 0.985, 1.9),
        (now_and_then_twice_as_slow, 0.96, 2.2),
    ],
)
def test_new_recoveries_stay_below_and_not_far_below(
    draw: Draw, covered: float, most: float
) -> None:
    random = np.random.default_rng(19)
    held, factors = [], []
    for kills in (5, 9, 19):
        for _ in range(150):
            ratios = draw(random, kills + 20)
            bound = factor(*ratios[:kills])
            held += list(ratios[kills:] <= bound)
            factors.append(bound)
    assert np.mean(held) >= covered
    assert np.median(factors) <= most


def test_a_tier_with_too_few_recoveries_is_uncalibrated_and_says_so() -> None:
    few = calibrate(scores(*[1.0] * (FEWEST_RECOVERIES - 1)))
    assert not few.calibrated.any()
    assert (
        few.describe(AT)
        == "uncalibrated (4 of the 5 recoveries that it takes), so a margin was added"
    )
    enough = calibrate(scores(*[1.0] * FEWEST_RECOVERIES))
    assert [TIERS[at] for at in np.flatnonzero(enough.calibrated)] == [HOT]
    assert enough.describe(AT) == "calibrated by 5 recoveries"
    assert UNCALIBRATED.describe(0).startswith("uncalibrated (0 of the 5 ")


def test_an_uncalibrated_tier_is_predicted_by_its_bounds_and_a_margin() -> None:
    typical, bounds = (_steps(seconds) for seconds in (1.0, 1.5))
    calibration = calibrate(scores(*[1.0] * 9))
    steps = calibration.apply(typical, bounds, detect=0.7, wait=0.3, margin=0.2)
    replay, detect, commit = (
        np.asarray(part) for part in (steps.replay, steps.detect, steps.first_commit)
    )
    assert replay[AT] == calibration.factor[AT]
    assert (detect[AT], commit[AT]) == (0.7, calibration.factor[AT] + 0.3), (
        "no factor on the moment"
    )
    assert replay[AT + 1] == detect[AT + 1] == commit[AT + 1] == 1.5 * 1.2


def test_slower_recoveries_never_lower_the_factor() -> None:
    usual = [0.9, 1.1, 1.0, 0.95, 1.05, 1.0]
    assert factor(*(1.3 * ratio for ratio in usual)) == pytest.approx(1.3 * factor(*usual))
    for at in range(len(usual)):
        slower = [*usual]
        slower[at] *= 2.0
        assert factor(*slower) > factor(*usual)


@given(
    st.lists(st.floats(0.1, 10.0), min_size=FEWEST_RECOVERIES, max_size=40),
    st.integers(0, 39),
    st.floats(0.01, 1.0),
)
def test_a_lower_score_never_raises_the_factor(ratios: list[float], at: int, share: float) -> None:
    """A recovery that was faster than predicted is no sign that others may be slower."""
    lower = [*ratios]
    lower[at % len(ratios)] *= share
    assert factor(*lower) <= factor(*ratios) * (1.0 + 1e-9)


def test_a_first_recovery_that_was_predicted_from_colder_steps_widens_nothing() -> None:
    assert factor(0.24, *[1.0] * 8) <= factor(*[1.0] * 9)


def test_steps_that_count_too_much_are_corrected_downwards() -> None:
    """As where two steps overlap: the sum of their typical times is never reached."""
    assert factor(*[0.6] * 20) < 0.9


def test_one_recovery_on_an_overloaded_host_is_covered_and_then_forgotten() -> None:
    assert factor(*[1.0] * 10, 4.0) >= 4.0
    assert factor(4.0, *[1.0] * 60) < 1.5


def test_other_streams_count_until_a_stream_has_enough_recoveries_of_its_own() -> None:
    others = scores(*[2.0] * 8, stream="orders")
    few = calibrate(scores(1.0, 1.0), others)
    assert few.factor[AT] > 2.0
    assert few.describe(AT) == "calibrated by 10 recoveries, 8 of them of other streams"
    assert calibrate(scores(*[1.0] * 5), others).factor[AT] < 1.6
    assert newest_scores(others) == others


def test_other_tiers_lend_their_recoveries_until_a_tier_has_enough_but_not_to_one_without_any() -> (
    None
):
    cold, deployed = TIERS.index(Tier.PASSIVE_STANDBY_COLD), TIERS.index(Tier.DEPLOYED)
    once = calibrate([*scores(*[1.0] * 4), *scores(2.0, tier=Tier.PASSIVE_STANDBY_COLD)])
    assert once.calibrated[[AT, cold]].all()
    assert once.factor[AT] > 2.0, "the one of the other tier is among them"
    assert once.describe(cold) == "calibrated by 5 recoveries, 4 of them of other tiers"
    assert not once.calibrated[deployed]
    assert once.describe(deployed).startswith("uncalibrated (no recovery in this tier)")
    enough = calibrate([*scores(*[1.0] * 5), *scores(2.0, tier=Tier.PASSIVE_STANDBY_COLD)])
    assert enough.factor[AT] < 1.5


def test_an_epoch_that_waits_is_a_case_of_its_own_where_the_secondary_processes() -> None:
    every = [
        Score(tier=tier, ratio=ratio, at=float(at), epoch_waits=waits)
        for tier in (Tier.ACTIVE_STANDBY, HOT)
        for ratio, waits in ((0.5, False), (1.0, True))
        for at in range(FEWEST_RECOVERIES)
    ]
    active = TIERS.index(Tier.ACTIVE_STANDBY)
    waits, awaited, unknown = (
        calibrate(every, epoch_waits=case).factor for case in (True, False, None)
    )
    assert awaited[active] == pytest.approx(waits[active] / 2.0)
    assert unknown[active] > 1.0, "the slower case counts if none is known"
    assert waits[AT] == awaited[AT] == unknown[AT], "there the steps tell the cases apart"


def test_calibrations_of_streams_are_stacked_with_an_axis_for_intervals() -> None:
    stacked = Calibration.stack([UNCALIBRATED, calibrate(scores(*[1.0] * 5))])
    assert stacked.factor.shape == (2, 1, len(TIERS))
    assert stacked.calibrated[:, 0, AT].tolist() == [False, True]


def test_what_the_steps_leave_out_is_learned_from_whole_recoveries() -> None:
    """Steps of 3 s, recoveries of 5 s: after a few of them the prediction covers them, and nothing before does."""
    ends = [100.0 * number for number in range(1, 13)]
    steps = {
        step: [Observation(seconds=1.0, at=at) for at in (1.0, *ends)]
        for step in (RecoveryStep.DETECT, RecoveryStep.WIRE_SEND, RecoveryStep.REPLAY)
    }
    recovered = [
        PastRecovery(
            stream="clicks",
            at=at,
            lost_at=at - 5.0,
            tier=HOT,
            seconds=5.0,
            steps={step: history[1] for step, history in steps.items()},
            detect_seconds=1.0,
            moment=Moment(epoch_waits=True),
        )
        for at in ends
    ]
    past = predict_past(
        recovered,
        StepTimings(steps=steps),
        RecoveryModel(),
        lambda detected: detected,
        IDLE,
    )
    bounds = RecoveryModel().fit(StepTimings(steps=steps)).bounds
    ratios = [score.ratio for score in score_recoveries(recovered, bounds, RecoveryModel(), IDLE)]
    assert ratios == pytest.approx([2.0] * 12, rel=0.05)
    held = [prediction.seconds >= 5.0 for prediction in past]
    assert held[FEWEST_RECOVERIES:] == [True] * 7
    assert 5.0 < past[-1].seconds < 7.0
    assert sum(past[-1].steps.values()) == pytest.approx(past[-1].seconds)


def test_recoveries_are_scored_by_what_is_typical_today() -> None:
    """The first was predicted from a cold driver that took 9 s: by that its own 2 s would score 0.2."""
    first, later = 1_000.0, [2_000.0, 3_000.0]
    replays = [
        Observation(seconds=9.0, readiness=Readiness.COLD, at=500.0),
        *(Observation(seconds=2.0, at=at) for at in (first, *later)),
    ]
    send = [Observation(seconds=0.0, at=at) for at in (500.0, first, *later)]
    steps = {RecoveryStep.REPLAY: replays, RecoveryStep.WIRE_SEND: send}
    recovered = [
        PastRecovery(
            stream="clicks",
            at=replay.at,
            lost_at=replay.at - 2.0,
            tier=HOT,
            seconds=2.0,
            steps={RecoveryStep.REPLAY: replay},
            moment=Moment(epoch_waits=True),
        )
        for replay in replays[1:]
    ]

    def ratios(at: float) -> list[float]:
        before = select_timings_before(at, StepTimings(steps=steps), lambda detected: detected)
        bounds = RecoveryModel().fit(before).bounds
        return [score.ratio for score in score_recoveries(recovered, bounds, RecoveryModel(), IDLE)]

    assert ratios(900.0)[0] == pytest.approx(2 / 9, rel=0.05)
    assert ratios(3_500.0) == pytest.approx([1.0] * 3, rel=0.05)


def _steps(seconds: float) -> StepSeconds:
    return StepSeconds(**dict.fromkeys((step.value for step in RecoveryStep), seconds))
