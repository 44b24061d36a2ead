"""Preset `thesis`: the behaviour that was published of StreamMine3G comes out of our own controller."""

from itertools import pairwise

import numpy as np
import pytest

from holdfast.ft_policies.costs.prices import ALL_COSTS, EC2, Weights
from holdfast.ft_policies.simulator.presets import THESIS
from holdfast.ft_policies.simulator.results import Outcome
from holdfast.ft_policies.tiers import Guarantee, Tier
from tests.builders.simulations import (
    VALIDATION_SECONDS,
    run_thesis,
    steady_trace,
    tiers_by_tick,
    validation_scenario,
)

SWEEP = tuple(np.arange(0.0, 25.5, 0.5).tolist())
TIERS = list(Tier)
NEITHER_UP = 1e-9


def settled(outcomes: tuple[Outcome, ...]) -> float:
    """The smallest objective from which on it is always in `passive_replication`, but for the start."""
    return min(
        outcome.objective_seconds
        for outcome in outcomes
        if outcome.time_share[Tier.PASSIVE_REPLICATION] > 0.95
    )


@pytest.mark.parametrize("weights", [ALL_COSTS, EC2])
@pytest.mark.parametrize("guarantee", [Guarantee.PRECISE, Guarantee.GAP])
def test_an_objective_of_0_is_active_replication_with_the_whole_overhead(
    weights: Weights, guarantee: Guarantee
) -> None:
    (outcome,) = run_thesis(0.0, rank_by=weights, guarantee=guarantee)
    assert outcome.time_share[Tier.ACTIVE_REPLICATION] == 1
    assert outcome.overhead == pytest.approx(
        {"cpu": 1, "memory": 1, "network": 1, "instances": 1}, abs=1e-12
    )
    assert outcome.switches_per_hour == 0


@pytest.mark.parametrize("weights", [ALL_COSTS, EC2])
@pytest.mark.parametrize("guarantee", [Guarantee.PRECISE, Guarantee.GAP])
def test_cost_cpu_and_instances_never_rise_with_a_larger_objective(
    weights: Weights, guarantee: Guarantee
) -> None:
    outcomes = run_thesis(*SWEEP, rank_by=weights, guarantee=guarantee)
    costs = [outcome.cost for outcome in outcomes]
    assert np.diff(costs).max() <= NEITHER_UP
    for name in ("cpu", "instances"):
        assert np.diff([outcome.overhead[name] for outcome in outcomes]).max() <= NEITHER_UP, name
    assert costs[-1] < 0.2 * costs[0]


@pytest.mark.parametrize("weights", [ALL_COSTS, EC2])
@pytest.mark.parametrize("guarantee", [Guarantee.PRECISE, Guarantee.GAP])
@pytest.mark.parametrize(
    ("name", "into"),
    [
        ("network", Tier.PASSIVE_STANDBY_HOT),  # which receives the input beside the state
        (
            "memory",
            Tier.DEPLOYED,
        ),  # which holds 50 MB of code, where a cold standby holds the state
    ],
)
def test_network_and_memory_rise_only_where_a_larger_objective_leads_to_the_tier_that_takes_more(
    weights: Weights, guarantee: Guarantee, name: str, into: Tier
) -> None:
    outcomes = run_thesis(*SWEEP, rank_by=weights, guarantee=guarantee)
    for before, after in pairwise(outcomes):
        if after.overhead[name] > before.overhead[name] + NEITHER_UP:
            assert after.time_share[into] > before.time_share[into] + 0.2


def test_all_costs_halve_the_cpu_from_4_seconds_on() -> None:
    outcomes = run_thesis(*SWEEP)
    assert all(
        outcome.overhead["cpu"] == 1 for outcome in outcomes if outcome.objective_seconds < 3
    )
    assert all(
        outcome.overhead["cpu"] <= 0.5 for outcome in outcomes if outcome.objective_seconds >= 4
    )


def test_hot_standby_takes_more_network_than_active_replication() -> None:
    hot = [
        outcome
        for outcome in run_thesis(*SWEEP)
        if outcome.time_share[Tier.PASSIVE_STANDBY_HOT] > 0.5
    ]
    assert [outcome.objective_seconds for outcome in hot] == [4.0]
    assert all(outcome.overhead["network"] > 1 for outcome in hot)


def test_ec2_knows_active_and_passive_replication_only() -> None:
    for outcome in run_thesis(*SWEEP, rank_by=EC2):
        share = outcome.time_share
        assert share[Tier.ACTIVE_REPLICATION] + share[Tier.PASSIVE_REPLICATION] >= 0.95


def test_ec2_saves_nothing_below_5_5_seconds_and_then_instances() -> None:
    by_objective = {
        outcome.objective_seconds: outcome for outcome in run_thesis(*SWEEP, rank_by=EC2)
    }
    assert all(by_objective[t].overhead["cpu"] == 1 for t in SWEEP if t < 5.5)
    assert by_objective[5.5].overhead["instances"] < 0.6
    mean = {
        by: np.mean([outcome.overhead["cpu"] for outcome in run_thesis(*SWEEP, rank_by=by)])
        for by in (EC2, ALL_COSTS)
    }
    assert mean[EC2] > mean[ALL_COSTS]


@pytest.mark.parametrize("weights", [ALL_COSTS, EC2])
def test_gap_never_costs_more_than_precise_and_settles_earlier(weights: Weights) -> None:
    precise = run_thesis(*SWEEP, rank_by=weights)
    gap = run_thesis(*SWEEP, rank_by=weights, guarantee=Guarantee.GAP)
    assert all(g.cost <= p.cost + NEITHER_UP for g, p in zip(gap, precise, strict=True))
    assert settled(gap) < settled(precise)


@pytest.mark.parametrize("weights", [ALL_COSTS, EC2])
def test_500_megabytes_of_state_need_more_than_20_seconds_before_an_instance_is_saved(
    weights: Weights,
) -> None:
    # Padded events: rows and state grow together, as 20 MB at 100,000 rows/s.
    padded = steady_trace(rate=2_500_000.0, state=500e6)
    until_20, later = run_thesis(20.0, 21.0, trace=padded, rank_by=weights)
    assert until_20.overhead["instances"] == 1
    assert later.overhead["instances"] < 0.05


@pytest.mark.parametrize("megabytes", [1.0, 20.0, 100.0, 500.0])
def test_more_than_4_seconds_save_cpu_at_any_size_of_state(megabytes: float) -> None:
    (outcome,) = run_thesis(
        4.5, trace=steady_trace(rate=5_000.0 * megabytes, state=1e6 * megabytes)
    )
    assert outcome.overhead["cpu"] <= 0.5


def test_the_validation_run_goes_down_at_once_and_ends_in_a_passive_standby() -> None:
    tiers = tiers_by_tick(validation_scenario(5.5))[:, 0, 0]
    names = [TIERS[tier] for tier in tiers]
    at = dict(zip(np.arange(len(names)) * THESIS.tick_seconds, names, strict=True))
    assert at[0.0] is Tier.ACTIVE_REPLICATION
    assert at[5.0] in (Tier.DEPLOYED, Tier.PASSIVE_REPLICATION)
    first, second = names[: len(names) // 2], names[len(names) // 2 :]
    cheap = [tier for tier in first if tier in (Tier.DEPLOYED, Tier.PASSIVE_REPLICATION)]
    standby = [
        tier for tier in second if tier in (Tier.PASSIVE_STANDBY_HOT, Tier.PASSIVE_STANDBY_COLD)
    ]
    assert len(cheap) > 0.9 * len(first)
    assert len(standby) > 0.9 * len(second)
    assert len(names) == VALIDATION_SECONDS / THESIS.tick_seconds
