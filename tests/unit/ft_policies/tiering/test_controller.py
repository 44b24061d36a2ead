from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.prediction.steps import TIERS
from holdfast.ft_policies.tiering.candidates import Candidates
from holdfast.ft_policies.tiering.controller import Choice, ControllerPolicy, Why
from holdfast.ft_policies.tiers import Tier

AR, AS, PSH, PSC, DEP, PR = range(6)
SECONDS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0)
COSTS = (1.0, 0.9, 0.7, 0.6, 0.4, 0.1)
POLICY = ControllerPolicy()


def a_stream(**different: Any) -> Candidates:
    """One stream that has been in active replication for long, and needs to be back within 10 s."""
    facts: dict[str, Any] = {
        "predicted": [SECONDS],
        "cost": [COSTS],
        "objective": 10.0,
        "allowed": [True] * 6,
        "enough": True,
        "current": AR,
        "current_interval": 0,
        "since_change": 1000.0,
        "recent_misses": 0,
    }
    facts |= different
    facts.setdefault("predicted_ahead", facts["predicted"])
    return Candidates(**{name: np.array([value]) for name, value in facts.items()})


def chosen(candidates: Candidates, policy: ControllerPolicy = POLICY) -> tuple[int, int, Why]:
    choice = policy.choose(candidates)
    return int(choice.tier[0]), int(choice.interval[0]), Why(int(choice.why[0]))


def best(candidates: Candidates) -> int:
    return int(POLICY.choose(candidates).best[0])


def test_the_cheapest_that_holds_the_objective_is_chosen() -> None:
    assert chosen(a_stream()) == (DEP, 0, Why.SAVES)
    assert chosen(a_stream(objective=3.0)) == (PSH, 0, Why.SAVES)
    assert chosen(a_stream(objective=60.0)) == (PR, 0, Why.SAVES)
    assert chosen(a_stream(objective=8.0)) == (DEP, 0, Why.SAVES)


def test_an_objective_of_nothing_needs_active_replication() -> None:
    assert chosen(a_stream(objective=0.0)) == (AR, 0, Why.CHEAPEST)
    assert chosen(a_stream(objective=0.0, current=AS)) == (AR, 0, Why.NEEDED)


def test_what_is_cheapest_already_stays() -> None:
    assert chosen(a_stream(current=DEP)) == (DEP, 0, Why.CHEAPEST)


def test_too_little_data_means_the_fastest_tier_that_is_allowed() -> None:
    assert chosen(a_stream(enough=False)) == (AR, 0, Why.TOO_LITTLE_DATA)
    no_active = [False, False, True, True, True, True]
    unsure = a_stream(enough=False, current=PR, allowed=no_active)
    assert chosen(unsure) == (PSH, 0, Why.TOO_LITTLE_DATA)
    assert best(unsure) == PSH


def test_too_little_data_is_no_reason_to_change_the_interval() -> None:
    grid = {"predicted": [SECONDS] * 3, "cost": [COSTS] * 3}
    unsure = a_stream(enough=False, current_interval=1, **grid)
    assert chosen(unsure) == (AR, 1, Why.TOO_LITTLE_DATA)


def test_if_nothing_holds_the_fastest_tier_is_the_least_evil() -> None:
    allowed = [False, False, True, False, False, True]
    hopeless = a_stream(objective=1.0, allowed=allowed, current=PR)
    assert chosen(hopeless) == (PSH, 0, Why.CANNOT_HOLD)
    there = a_stream(objective=1.0, allowed=allowed, current=PSH)
    assert chosen(there) == (PSH, 0, Why.CANNOT_HOLD)


def test_if_nothing_holds_the_interval_is_that_of_the_quickest_recovery() -> None:
    slow, quick = [30.0] * 6, [20.0] * 6
    hopeless = a_stream(
        predicted=[quick, quick, slow], cost=[COSTS] * 3, allowed=[False] + [True] * 5
    )
    assert chosen(hopeless) == (AS, 1, Why.CANNOT_HOLD)


def test_what_cannot_be_predicted_or_priced_is_not_chosen() -> None:
    unknown = a_stream(predicted=[(0.0, 1.0, np.nan, np.inf, 8.0, 9.0)])
    assert chosen(unknown) == (PR, 0, Why.SAVES)
    priceless = a_stream(cost=[(1.0, 0.9, 0.7, 0.6, np.inf, 0.1)])
    assert chosen(priceless) == (PSC, 0, Why.SAVES)
    assert chosen(a_stream(cost=[(np.nan,) * 6], current=DEP)) == (AR, 0, Why.CANNOT_HOLD)


def test_a_tie_goes_to_the_faster_tier() -> None:
    by_instances = a_stream(cost=[(1.0, 1.0, 1.0, 1.0, 1.0, 0.0)], current=PR)
    assert chosen(by_instances) == (AR, 0, Why.NEEDED)
    almost = a_stream(cost=[(0.1 + 0.2, 0.3, 0.3, 0.3, 0.3, 0.0)], current=PR)
    assert chosen(almost) == (AR, 0, Why.NEEDED)


def test_a_tie_goes_to_the_longer_interval_of_the_same_tier() -> None:
    grid = {"predicted": [SECONDS] * 3, "cost": [COSTS] * 3}
    assert chosen(a_stream(**grid)) == (DEP, 2, Why.SAVES)


def test_the_load_to_come_counts_as_much_as_the_present_one() -> None:
    growing = (0.0, 2.0, 4.0, 8.0, 16.0, 32.0)
    assert chosen(a_stream(predicted_ahead=[growing])) == (PSC, 0, Why.SAVES)
    assert chosen(a_stream(predicted_ahead=[growing], current=DEP)) == (PSC, 0, Why.NEEDED)
    shrinking = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
    assert chosen(a_stream(predicted_ahead=[shrinking])) == (DEP, 0, Why.SAVES)


def test_a_tier_that_is_not_allowed_any_more_is_left_at_once() -> None:
    forbidden = a_stream(current=DEP, allowed=[True] * 4 + [False] * 2, since_change=100.0)
    assert chosen(forbidden) == (PSC, 0, Why.NEEDED)


@pytest.mark.parametrize(
    "demanding",
    [{"objective": 1.0}, {"enough": False}, {"allowed": [True] + [False] * 5}, {"objective": 60.0}],
)
def test_nothing_moves_a_stream_that_cools_down(demanding: dict[str, Any]) -> None:
    cooling = a_stream(current=DEP, since_change=59.9, **demanding)
    assert chosen(cooling) == (DEP, 0, Why.COOLING_DOWN)
    assert best(cooling) != DEP
    cooled = replace(cooling, since_change=np.array([60.0]))
    assert chosen(cooled, ControllerPolicy(dwell_seconds=0))[0] != DEP


def test_a_saving_waits_for_the_dwell_but_a_need_does_not() -> None:
    assert chosen(a_stream(since_change=299.0)) == (AR, 0, Why.DWELLING)
    assert chosen(a_stream(since_change=300.0)) == (DEP, 0, Why.SAVES)
    assert chosen(a_stream(current=PR, since_change=60.0)) == (DEP, 0, Why.NEEDED)


def test_a_small_saving_is_not_worth_a_move() -> None:
    close = a_stream(cost=[(1.0, 0.95, 0.91, 0.91, 0.91, 0.1)])
    assert chosen(close) == (AR, 0, Why.SMALL_SAVING)
    assert best(close) == PSH
    assert chosen(a_stream(cost=[(1.0, 0.95, 0.9, 0.91, 0.91, 0.1)])) == (PSH, 0, Why.SAVES)


def test_after_misses_a_stream_steps_down_only_with_a_margin() -> None:
    assert chosen(a_stream(recent_misses=1)) == (DEP, 0, Why.SAVES)  # 8 s ≤ 10 s less 15 %
    assert chosen(a_stream(recent_misses=2)) == (PSC, 0, Why.SAVES)  # 8 s > 10 s less 30 %
    assert best(a_stream(recent_misses=2)) == DEP
    assert chosen(a_stream(recent_misses=100, objective=8.0)) == (PSC, 0, Why.SAVES)  # 50 % at most


def test_misses_move_no_stream_that_holds_the_objective() -> None:
    assert chosen(a_stream(recent_misses=9, current=DEP)) == (DEP, 0, Why.CHEAPEST)
    assert chosen(a_stream(recent_misses=9, current=PSH, objective=3.0)) == (PSH, 0, Why.CHEAPEST)


def test_a_step_up_needs_no_margin() -> None:
    assert chosen(a_stream(recent_misses=9, current=PR)) == (DEP, 0, Why.NEEDED)


def test_the_interval_that_makes_the_whole_cheapest_is_chosen_with_the_tier() -> None:
    quick, slow = (0.0, 1.0, 2.0, 3.0, 5.0, 9.0), (0.0, 1.0, 4.0, 6.0, 12.0, 18.0)
    frequent, rare = (1.5, 1.4, 1.2, 1.1, 0.9, 0.5), COSTS
    both = {"predicted": [quick, slow], "cost": [frequent, rare]}
    assert chosen(a_stream(**both)) == (PR, 0, Why.SAVES)
    assert chosen(a_stream(objective=20.0, **both)) == (PR, 1, Why.SAVES)
    assert chosen(a_stream(objective=20.0, current=PR, **both)) == (PR, 1, Why.SAVES)
    lagging = a_stream(objective=10.0, current=PR, current_interval=1, since_change=60.0, **both)
    assert chosen(lagging) == (PR, 0, Why.NEEDED)
    dwelling = a_stream(objective=20.0, current=PR, since_change=60.0, **both)
    assert chosen(dwelling) == (PR, 0, Why.DWELLING)


def test_an_interval_that_a_stream_may_not_have_is_left_at_once() -> None:
    not_had = [np.inf] * 6
    grid = {"predicted": [SECONDS] * 2, "cost": [not_had, COSTS]}
    assert chosen(a_stream(current=DEP, since_change=60.0, **grid)) == (DEP, 1, Why.NEEDED)


def test_small_integers_do_not_overflow() -> None:
    small = a_stream(current=np.int8(PR), predicted=[SECONDS] * 40, cost=[COSTS] * 40)
    assert chosen(small) == (DEP, 39, Why.NEEDED)


def test_no_streams_need_no_choice() -> None:
    none = Candidates(
        predicted=np.empty((0, 1, 6)),
        predicted_ahead=np.empty((0, 1, 6)),
        cost=np.empty((0, 1, 6)),
        objective=np.empty(0),
        allowed=np.empty((0, 6), dtype=bool),
        enough=np.empty(0, dtype=bool),
        current=np.empty(0, dtype=int),
        current_interval=np.empty(0, dtype=int),
        since_change=np.empty(0),
        recent_misses=np.empty(0),
    )
    assert isinstance(POLICY.choose(none), Choice)
    assert len(POLICY.choose(none).tier) == 0


def test_arrays_that_do_not_fit_are_refused() -> None:
    with pytest.raises(PermanentError, match="do not match"):
        a_stream(predicted=[SECONDS[:5]])
    with pytest.raises(PermanentError, match="do not match"):
        a_stream(objective=[1.0, 2.0])


@pytest.mark.parametrize(
    "wrong",
    [
        {"cool_down_seconds": -1},
        {"dwell_seconds": -1},
        {"min_relative_saving": 1.0},
        {"margin_per_miss": -0.1},
        {"largest_margin": 1.0},
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(PermanentError, match=r"must not be negative|shares below 1"):
        ControllerPolicy(**wrong)


def test_the_axis_of_tiers_is_from_the_fastest_to_the_cheapest() -> None:
    assert TIERS[AR] is Tier.ACTIVE_REPLICATION
    assert TIERS[PR] is Tier.PASSIVE_REPLICATION
