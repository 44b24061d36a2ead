"""Running over a trace: what is added up, failures and misses, the violation budget, no flapping."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from holdfast.ft_policies.costs.billing import RELEASE_SECONDS
from holdfast.ft_policies.costs.prices import ALL_COSTS, EC2, Prices, Weights
from holdfast.ft_policies.simulator.engine import Scenario, SimulationProgress, simulate
from holdfast.ft_policies.simulator.presets import MEASURED, THESIS
from holdfast.ft_policies.simulator.results import Outcome
from holdfast.ft_policies.simulator.system import RESOURCES, System
from holdfast.ft_policies.simulator.traces import Generated, Shape
from holdfast.ft_policies.tiering.controller import ControllerPolicy
from holdfast.ft_policies.tiers import Tier
from tests.builders.simulations import (
    ON_DEMAND,
    Given,
    erratic_scenario,
    run_thesis,
    steady_trace,
    tiers_by_tick,
)

HOUR = 3600.0
MOST_CHANGES_PER_HOUR = 20.0


def spiky(system: System, *objectives: float, seconds: float = HOUR) -> Scenario:
    return Scenario(
        system=system,
        trace=Generated(
            shape=Shape.SPIKES,
            rows_per_second=system.usual_rows_per_second,
            state=system.state,
            streams=4,
            seed=5,
        ),
        seconds=seconds,
        objectives=objectives,
        rank_by=ON_DEMAND,
        failures_per_day=50.0,
        seed=5,
    )


def never_wary(system: System) -> System:
    return replace(system, policy=replace(system.policy, margin_per_miss=0.0))


@pytest.mark.parametrize("system", [THESIS, MEASURED])
def test_what_is_added_up_is_what_each_tick_takes(system: System) -> None:
    progress: list[SimulationProgress] = []
    (outcome,) = simulate(spiky(system, 10.0, seconds=600 * system.tick_seconds), progress.append)
    used, active = dict.fromkeys(RESOURCES, 0.0), dict.fromkeys(RESOURCES, 0.0)
    for passed in progress:
        rates, states = passed.load.rows_per_second, passed.load.state_bytes
        overhead = system.overhead(rates[..., np.newaxis], states[..., np.newaxis])
        for name, field in RESOURCES.items():
            each = np.broadcast_to(getattr(overhead, field), (*rates.shape, 1, 6))[:, :, 0]
            at = passed.tiers[:, 0, :, np.newaxis]
            used[name] += float(np.take_along_axis(each, at, axis=-1).sum())
            active[name] += float(each[..., 0].sum())
    assert outcome.overhead == pytest.approx(
        {name: used[name] / active[name] for name in RESOURCES}
    )
    assert sum(outcome.time_share.values()) == pytest.approx(1)


def test_objectives_beside_each_other_are_as_each_alone() -> None:
    together = simulate(spiky(MEASURED, 5.0, 10.0, 45.0))
    alone = [simulate(spiky(MEASURED, objective))[0] for objective in (5.0, 10.0, 45.0)]
    assert [outcome.time_share for outcome in together] == [outcome.time_share for outcome in alone]
    assert [outcome.misses for outcome in together] == [outcome.misses for outcome in alone]
    assert [outcome.cost for outcome in together] == pytest.approx(
        [outcome.cost for outcome in alone]
    )


def test_decisions_do_not_depend_on_the_order_of_streams() -> None:
    chance = np.random.default_rng(2)
    rates = chance.lognormal(7.0, 1.0, (400, 5))
    trace = Given(rates=rates, states=rates * 50_000)
    turned = Given(rates=rates[:, ::-1], states=rates[:, ::-1] * 50_000)
    scenario = Scenario(system=MEASURED, trace=trace, seconds=2000.0, objectives=(10.0,))
    np.testing.assert_array_equal(
        tiers_by_tick(scenario)[:, :, ::-1], tiers_by_tick(replace(scenario, trace=turned))
    )


def test_what_cannot_be_held_is_met_by_the_fastest_tier_that_is_allowed() -> None:
    allowed = (Tier.PASSIVE_STANDBY_COLD, Tier.DEPLOYED)
    (outcome,) = simulate(replace(spiky(MEASURED, 0.0), allowed=allowed))
    assert outcome.time_share[Tier.PASSIVE_STANDBY_COLD] == 1
    assert outcome.misses == outcome.failures > 0


def test_the_same_seed_gives_the_same_and_another_does_not() -> None:
    scenario = spiky(MEASURED, 10.0)
    assert simulate(scenario) == simulate(scenario)
    assert simulate(scenario) != simulate(replace(scenario, seed=6))


def test_failures_come_as_often_as_asked_and_alike_for_each_objective() -> None:
    outcomes = simulate(
        Scenario(
            system=MEASURED,
            trace=steady_trace(2000.0, 120e6, streams=50),
            seconds=2 * HOUR,
            objectives=(0.0, 60.0),
            failures_per_day=48.0,
        )
    )
    assert len({outcome.failures for outcome in outcomes}) == 1
    assert outcomes[0].failures == pytest.approx(200, abs=5 * np.sqrt(200))


def test_an_objective_that_a_tier_holds_with_ease_is_missed_by_second_failures_only() -> None:
    strict, easy = simulate(replace(erratic_scenario(), objectives=(0.0, 180.0)))
    assert strict.failures > 500
    assert strict.misses == strict.double_misses > 0
    assert easy.misses == 0


def test_95_of_100_recoveries_stay_below_their_bound() -> None:
    luck = np.random.default_rng(1).standard_normal(20_000)
    took = MEASURED.real(np.full(20_000, 10.0), luck)
    assert np.mean(took <= 10.0) == pytest.approx(0.95, abs=0.01)


def misses(outcome: Outcome) -> int:
    return outcome.misses - outcome.double_misses


def test_the_violation_budget_cuts_misses_under_an_erratic_load() -> None:
    without_margin = replace(MEASURED, policy=replace(MEASURED.policy, least_margin=0.0))
    (wary,) = simulate(erratic_scenario(without_margin))
    (careless,) = simulate(erratic_scenario(never_wary(without_margin)))
    assert misses(careless) >= 50
    assert misses(wary) < 0.8 * misses(careless)
    assert wary.switches_per_hour < careless.switches_per_hour


def test_nothing_flaps_under_an_erratic_load() -> None:
    scenario = erratic_scenario()
    tiers = tiers_by_tick(scenario)[:, 0, :]
    changes = (np.diff(tiers, axis=0) != 0).sum(axis=0) / (scenario.seconds / HOUR)
    assert changes.max() <= MOST_CHANGES_PER_HOUR
    eager = replace(MEASURED, policy=replace(THESIS.policy, cool_down_seconds=0.0))
    assert simulate(erratic_scenario(eager))[0].switches_per_hour > 2 * MOST_CHANGES_PER_HOUR


@pytest.mark.parametrize("system", [THESIS, MEASURED])
def test_nothing_changes_within_the_cool_down(system: System) -> None:
    tiers = tiers_by_tick(erratic_scenario(system, hours=600 * system.tick_seconds / HOUR))[:, 0, :]
    cool_down = system.policy.cool_down_seconds
    changes = [np.flatnonzero(np.diff(column)) * system.tick_seconds for column in tiers.T]
    gaps = [later - earlier for ticks in changes for earlier, later in pairwise(ticks)]
    assert gaps
    assert min(gaps) >= cool_down


@pytest.mark.parametrize(
    "cheaper", ["instance_hour", "traffic_gb", "put_per_thousand", "storage_gb_month"]
)
@pytest.mark.parametrize("objective", [4.0, 10.0, 45.0])
def test_a_cheaper_price_never_raises_the_bill(cheaper: str, objective: float) -> None:
    at_once = replace(MEASURED, policy=ControllerPolicy(dwell_seconds=0.0, min_relative_saving=0.0))
    dear = replace(spiky(at_once, objective), trace=steady_trace(2000.0, 120e6))
    less: Prices = replace(ON_DEMAND, **{cheaper: getattr(ON_DEMAND, cheaper) / 4})
    (before,), (after,) = simulate(dear), simulate(replace(dear, rank_by=less))
    assert before.money is not None
    assert after.money is not None
    assert after.money.per_hour <= before.money.per_hour


def test_intervals_are_chosen_for_the_least_cost_that_holds() -> None:
    every = (2.0, 10.0, 60.0)
    choosing = replace(MEASURED, snapshot_every=every, sync_every=every)
    fixed = [
        replace(MEASURED, snapshot_every=(seconds,), sync_every=(seconds,)) for seconds in every
    ]
    load = {"trace": steady_trace(2000.0, 120e6), "failures_per_day": 0.0}
    best = simulate(replace(spiky(choosing, 12.0), **load))[0]
    alone = [simulate(replace(spiky(candidate, 12.0), **load))[0] for candidate in fixed]
    assert best.cost <= min(outcome.cost for outcome in alone) * 1.05
    assert best.cost < 0.9 * max(outcome.cost for outcome in alone)


def test_a_paid_hour_is_used_and_billed_whole() -> None:
    hourly = replace(ON_DEMAND, started_hours=True)
    asked = Scenario(
        system=MEASURED,
        trace=steady_trace(100.0, 1e6),
        seconds=4 * HOUR,
        objectives=(60.0,),
        rank_by=hourly,
    )
    (by_hour,), (by_second,) = simulate(asked), simulate(replace(asked, rank_by=ON_DEMAND))
    assert by_second.time_share[Tier.PASSIVE_REPLICATION] > 0.99
    used = (HOUR - RELEASE_SECONDS - MEASURED.policy.dwell_seconds) / (4 * HOUR)
    assert by_hour.time_share[Tier.ACTIVE_REPLICATION] == pytest.approx(used, abs=0.01)
    assert by_hour.time_share[Tier.PASSIVE_REPLICATION] == pytest.approx(1 - used, abs=0.01)
    assert by_hour.money is not None
    assert by_second.money is not None
    a_quarter = ON_DEMAND.instance_hour / 4  # one started hour of four
    assert by_hour.money.per_hour - by_second.money.per_hour == pytest.approx(a_quarter, rel=0.05)


@pytest.mark.parametrize("weights", [ALL_COSTS, EC2])
def test_money_is_reported_also_where_weights_rank(weights: Weights) -> None:
    (unpriced,) = run_thesis(4.0, rank_by=weights)
    (priced,) = run_thesis(4.0, rank_by=weights, prices=ON_DEMAND)
    assert unpriced.money is None
    assert priced.money is not None
    assert priced.time_share == unpriced.time_share
    low, high = priced.money.always_passive_replication, priced.money.always_active_replication
    assert low < priced.money.per_hour <= high * 1.5
