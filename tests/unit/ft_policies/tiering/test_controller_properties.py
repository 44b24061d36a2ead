"""What holds for every choice, whatever the numbers."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
from hypothesis import given, settings, strategies as st

from holdfast.ft_policies.tiering.candidates import Candidates
from holdfast.ft_policies.tiering.controller import Choice, ControllerPolicy, Why
from tests.waiting import cpu_seconds_at_most

POLICY = ControllerPolicy()
CHOSEN = [field.name for field in fields(Choice) if field.name != "policy"]
EAGER = ControllerPolicy(dwell_seconds=0, min_relative_saving=0)


def a_fleet(seed: int, *, streams: int = 20, intervals: int = 3) -> Candidates:
    """Streams of all kinds; few distinct numbers, so that ties and limits are met."""
    numbers = np.random.default_rng(seed)
    grid = (streams, intervals, 6)
    predicted = np.sort(numbers.integers(0, 20, grid), axis=2).astype(float)
    predicted[:, :, 0] = 0.0
    cost = numbers.integers(0, 12, grid) / 10
    cost[:, :-1][numbers.random((streams, intervals - 1)) < 0.1] = np.inf  # intervals not had
    return Candidates(
        predicted=predicted,
        predicted_ahead=predicted * numbers.choice([0.5, 1.0, 2.0], (streams, 1, 1)),
        cost=cost,
        objective=numbers.integers(0, 20, streams).astype(float),
        allowed=numbers.random((streams, 6)) < numbers.choice([0.5, 1.0]),
        enough=numbers.random(streams) < 0.9,
        current=numbers.integers(0, 6, streams),
        current_interval=numbers.integers(0, intervals, streams),
        since_change=numbers.choice([0.0, 59.0, 60.0, 100.0, 300.0, 1e6], streams),
        recent_misses=numbers.choice([0, 0, 1, 3, 10], streams),
    )


fleets = st.builds(a_fleet, st.integers(0, 2**32 - 1), intervals=st.integers(1, 4))
policies = st.builds(
    ControllerPolicy,
    cool_down_seconds=st.sampled_from([0.0, 60.0, 90.0]),
    dwell_seconds=st.sampled_from([0.0, 100.0, 300.0]),
    min_relative_saving=st.sampled_from([0.0, 0.1, 0.5]),
    margin_per_miss=st.sampled_from([0.0, 0.15]),
)


def at(grid: Any, tier: Any, interval: Any) -> Any:
    return grid[np.arange(len(tier)), interval, tier]


def holding(fleet: Candidates) -> Any:
    seconds = np.maximum(fleet.predicted, fleet.predicted_ahead)
    in_time = seconds <= fleet.objective[:, None, None]
    return in_time & fleet.allowed[:, None, :] & (fleet.cost < np.inf)


def only(fleet: Candidates, rows: Any) -> Candidates:
    arrays = {field.name: getattr(fleet, field.name) for field in fields(fleet)}
    return replace(
        fleet, **{name: array[rows] for name, array in arrays.items() if np.size(array) > 1}
    )


@given(fleets, policies)
def test_the_choice_holds_the_objective_if_anything_does(
    fleet: Candidates, policy: ControllerPolicy
) -> None:
    choice, holds = policy.choose(fleet), holding(fleet)
    some = fleet.enough & holds.any(axis=(1, 2))
    settled = some & (fleet.since_change >= policy.cool_down_seconds)
    assert at(holds, choice.tier, choice.interval)[settled].all()
    assert holds.any(axis=1)[np.arange(len(some)), choice.best][some].all()


@given(fleets, policies)
def test_nothing_changes_within_the_cool_down(fleet: Candidates, policy: ControllerPolicy) -> None:
    choice, cooling = policy.choose(fleet), fleet.since_change < policy.cool_down_seconds
    assert (choice.tier == fleet.current)[cooling].all()
    assert (choice.interval == fleet.current_interval)[cooling].all()


@given(fleets, policies)
def test_without_data_the_fastest_tier_that_is_allowed_is_chosen(
    fleet: Candidates, policy: ControllerPolicy
) -> None:
    choice = policy.choose(fleet)
    settled = ~fleet.enough & (fleet.since_change >= policy.cool_down_seconds)
    assert (choice.tier == fleet.allowed.argmax(axis=1))[settled].all()
    assert (choice.why == Why.TOO_LITTLE_DATA)[settled].all()


@given(fleets, policies)
def test_a_stream_that_holds_moves_only_for_a_saving_after_its_dwell_and_with_a_margin(
    fleet: Candidates, policy: ControllerPolicy
) -> None:
    choice = policy.choose(fleet)
    moved = (choice.tier != fleet.current) | (choice.interval != fleet.current_interval)
    held = at(holding(fleet), fleet.current, fleet.current_interval) & fleet.enough
    free = moved & held
    assert (choice.why[free] == Why.SAVES).all()
    assert (fleet.since_change[free] >= policy.dwell_seconds).all()
    now = at(fleet.cost, fleet.current, fleet.current_interval)
    then = at(fleet.cost, choice.tier, choice.interval)
    assert (then <= now * (1 - policy.min_relative_saving) + 1e-9)[free].all()
    seconds = np.maximum(fleet.predicted, fleet.predicted_ahead)
    limit = fleet.objective * (1 - policy.margin(fleet.recent_misses))
    assert (at(seconds, choice.tier, choice.interval) <= limit)[free].all()


@given(fleets, policies, st.integers(0, 2**32 - 1))
def test_the_order_of_the_streams_does_not_matter(
    fleet: Candidates, policy: ControllerPolicy, seed: int
) -> None:
    order = np.random.default_rng(seed).permutation(len(fleet.objective))
    choice, other = policy.choose(fleet), policy.choose(only(fleet, order))
    for name in CHOSEN:
        assert (getattr(choice, name)[order] == getattr(other, name)).all()


@given(fleets, policies)
def test_the_choice_for_a_stream_does_not_depend_on_the_others(
    fleet: Candidates, policy: ControllerPolicy
) -> None:
    alone = policy.choose(only(fleet, slice(3, 4)))
    assert alone.tier[0] == policy.choose(fleet).tier[3]
    assert alone.why[0] == policy.choose(fleet).why[3]


@given(fleets, st.integers(0, 2**32 - 1))
def test_cheaper_prices_never_raise_the_bill(fleet: Candidates, seed: int) -> None:
    fleet = replace(fleet, recent_misses=np.zeros(20))
    discount = np.random.default_rng(seed).choice([0.3, 0.9, 1.0], fleet.cost.shape)
    cheap = replace(fleet, cost=fleet.cost * discount)
    for policy, band in ((EAGER, 0.0), (POLICY, POLICY.min_relative_saving)):
        bill, less = (_bill(streams, policy) for streams in (fleet, cheap))
        is_predicted = fleet.enough & holding(fleet).any(axis=(1, 2))
        assert (less * (1 - band) <= bill + 1e-9)[is_predicted].all()


def _bill(fleet: Candidates, policy: ControllerPolicy) -> Any:
    choice = policy.choose(fleet)
    return at(fleet.cost, choice.tier, choice.interval)


@given(fleets, policies)
def test_an_interval_that_is_slower_and_dearer_changes_nothing(
    fleet: Candidates, policy: ControllerPolicy
) -> None:
    def with_worst(grid: Any) -> Any:
        return np.concatenate([grid, grid.max(axis=1, keepdims=True) + 1], axis=1)

    grids = ("predicted", "predicted_ahead", "cost")
    more = replace(fleet, **{name: with_worst(getattr(fleet, name)) for name in grids})
    choice, other = policy.choose(fleet), policy.choose(more)
    for name in CHOSEN:
        assert (getattr(choice, name) == getattr(other, name)).all()


@given(fleets, policies)
def test_allowing_a_tier_that_is_slower_and_dearer_changes_nothing(
    fleet: Candidates, policy: ControllerPolicy
) -> None:
    without, with_it = fleet.allowed.copy(), fleet.allowed.copy()
    without[:, 0], without[:, 5], with_it[:, 0], with_it[:, 5] = True, False, True, True
    cost = fleet.cost.copy()
    cost[:, :, 5] = cost.max() + 1
    fleet = replace(fleet, cost=cost, current=np.minimum(fleet.current, 4))
    choice = policy.choose(replace(fleet, allowed=without))
    other = policy.choose(replace(fleet, allowed=with_it))
    for name in CHOSEN:
        assert (getattr(choice, name) == getattr(other, name)).all()


@given(fleets)
def test_a_choice_that_is_made_is_kept(fleet: Candidates) -> None:
    """No flapping: with the same facts, what was chosen is chosen again."""
    choice = EAGER.choose(fleet)
    then = replace(fleet, current=choice.tier, current_interval=choice.interval)
    again = EAGER.choose(then)
    settled = fleet.since_change >= EAGER.cool_down_seconds
    assert (again.tier == choice.tier)[settled].all()
    assert (again.interval == choice.interval)[settled].all()


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_arrays_with_the_tiers_first_in_memory_give_the_same(seed: int) -> None:
    fleet = a_fleet(seed)
    grids = ("predicted", "predicted_ahead", "cost", "allowed")
    turned = {name: np.asfortranarray(getattr(fleet, name)) for name in grids}
    assert (POLICY.choose(fleet).tier == POLICY.choose(replace(fleet, **turned)).tier).all()


def test_ten_thousand_streams_are_chosen_for_within_a_second() -> None:
    fleet = a_fleet(1, streams=10_000, intervals=6)
    with cpu_seconds_at_most(1.0):
        POLICY.choose(fleet)
