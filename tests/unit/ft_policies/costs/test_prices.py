"""What a tier costs: in units of the primary, and in money."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from holdfast.ft_policies.costs.prices import (
    ALL_COSTS,
    ASSUMED_SHARES,
    EC2,
    GB,
    TIERS,
    FloatArray,
    Prices,
    Usage,
    Weights,
    compute_overhead,
    thesis_overhead,
    weigh_cost,
)
from holdfast.ft_policies.tiers import Tier

ONE = np.ones(len(TIERS))
PRIMARY = Usage(
    cpu_cores=2.0, memory_bytes=GB, network_bytes_per_second=8e6, instances=1.0, stored_bytes=0.0
)
PRICES = Prices(
    currency="USD",
    instance_hour=0.1,
    put_per_thousand=0.005,
    get_per_thousand=0.0004,
    storage_gb_month=0.073,
    traffic_gb=0.01,
)
FREE = Prices(
    currency="USD",
    instance_hour=0.0,
    put_per_thousand=0.0,
    get_per_thousand=0.0,
    storage_gb_month=0.0,
    traffic_gb=0.0,
)
PRICED = tuple(
    name for name in Prices.__dataclass_fields__ if name not in ("currency", "started_hours")
)
USED = tuple(Usage.__dataclass_fields__)

amounts = st.just(0.0) | st.floats(1e-6, 1e6)
usages = st.builds(Usage, **dict.fromkeys(USED, amounts))
price_lists = st.builds(Prices, currency=st.just("USD"), **dict.fromkeys(PRICED, amounts))


def of(costs: FloatArray, tier: Tier) -> float:
    return float(costs[..., TIERS.index(tier)])


def of_thesis(primary: Usage = PRIMARY, *, state: float = 28e6, every: float = 3.5) -> Usage:
    return thesis_overhead(
        primary, state_bytes=state, sync_every=every, snapshot_every=every, queue_bytes=4e6
    )


def of_holdfast(primary: Usage = PRIMARY, *, sync: float = 5.0, snapshot: float = 10.0) -> Usage:
    return compute_overhead(
        primary,
        ASSUMED_SHARES,
        new_state_bytes_per_second=1e6,
        sync_every=sync,
        snapshot_every=snapshot,
        requests_per_snapshot=2.0,
        requests_per_sync=3.0,
        stored_bytes=5 * GB,
    )


@pytest.mark.parametrize("weights", [ALL_COSTS, EC2])
def test_active_replication_costs_one_more_of_all_that_counts(weights: Weights) -> None:
    counted = weights.cpu + weights.memory + weights.network + weights.instances
    assert of(weigh_cost(of_thesis(), PRIMARY, weights), Tier.ACTIVE_REPLICATION) == counted


def test_only_machines_count_on_ec2_so_all_tiers_that_have_one_tie() -> None:
    np.testing.assert_array_equal(weigh_cost(of_thesis(), PRIMARY, EC2), [1, 1, 1, 1, 1, 0])


def test_each_resource_of_the_thesis_tiers() -> None:
    added = of_thesis()
    np.testing.assert_allclose(added.cpu_cores, [2.0, 2.0, 0.5, 0.5, 0.0, 0.0])
    np.testing.assert_allclose(added.memory_bytes, [GB, GB, 32e6, 28e6, 0.0, 0.0])
    np.testing.assert_allclose(added.network_bytes_per_second, [8e6, 4e6, 12e6, 8e6, 8e6, 8e6])
    np.testing.assert_allclose(added.puts_per_second, [0, 0, 0, 0, 1 / 3.5, 1 / 3.5])
    np.testing.assert_allclose(added.stored_bytes, [0, 0, 0, 0, 28e6, 28e6])


def test_syncs_of_a_large_state_exceed_the_traffic_of_the_events() -> None:
    network = replace(ALL_COSTS, cpu=0.0, memory=0.0, instances=0.0)
    costs = weigh_cost(of_thesis(state=70e6), PRIMARY, network)
    assert of(costs, Tier.PASSIVE_STANDBY_HOT) == pytest.approx(3.0)


def test_code_alone_is_in_memory_where_a_secondary_is_only_deployed() -> None:
    added = thesis_overhead(
        PRIMARY, state_bytes=1e6, sync_every=1, snapshot_every=1, queue_bytes=0, code_bytes=5e6
    )
    np.testing.assert_allclose(added.memory_bytes, [GB, GB, 1e6, 1e6, 5e6, 0.0])


def test_what_the_primary_does_not_use_does_not_count() -> None:
    idle = replace(PRIMARY, network_bytes_per_second=0.0)
    costs = weigh_cost(of_thesis(idle), idle, ALL_COSTS)
    np.testing.assert_array_equal(
        costs, weigh_cost(of_thesis(idle), idle, replace(ALL_COSTS, network=0.0))
    )
    np.testing.assert_array_equal(weigh_cost(Usage(), Usage(), ALL_COSTS), 0.0 * ONE)


def test_every_tier_ships_and_the_shorter_interval_sets_the_pace_of_those_that_sync() -> None:
    added = of_holdfast()
    np.testing.assert_allclose(added.puts_per_second, [0.2, 0.2, 0.4, 0.4, 0.2, 0.2])
    np.testing.assert_allclose(added.gets_per_second, [0, 0, 0.6, 0.6, 0, 0])
    np.testing.assert_allclose(added.network_bytes_per_second, [9e6, 5e6, 6e6, 2e6, 1e6, 1e6])
    rare = of_holdfast(sync=60.0)
    np.testing.assert_allclose(rare.puts_per_second, 0.2 * ONE)
    np.testing.assert_allclose(rare.gets_per_second, [0, 0, 0.3, 0.3, 0, 0])


def test_a_secondary_takes_its_share_and_one_that_is_not_there_nothing() -> None:
    added = of_holdfast()
    np.testing.assert_allclose(added.cpu_cores, 2.0 * ASSUMED_SHARES.cpu)
    np.testing.assert_allclose(added.memory_bytes, GB * ASSUMED_SHARES.memory)
    np.testing.assert_allclose(added.instances, [1, 1, 1, 1, 1, 0])


def test_shares_that_are_assumed_fall_from_tier_to_tier() -> None:
    for share in (ASSUMED_SHARES.cpu, ASSUMED_SHARES.memory, ASSUMED_SHARES.network):
        assert np.all(np.diff(share) <= 0)
        assert share[0] == 1.0
        assert share[-1] == 0.0


def test_a_measured_tier_replaces_what_was_assumed_of_it_only() -> None:
    shares = ASSUMED_SHARES.with_measured(Tier.DEPLOYED, cpu=0.01, memory=0.4, network=0.02)
    assert (of(shares.cpu, Tier.DEPLOYED), of(shares.memory, Tier.DEPLOYED)) == (0.01, 0.4)
    assert of(shares.network, Tier.DEPLOYED) == 0.02
    np.testing.assert_array_equal(shares.cpu[:4], ASSUMED_SHARES.cpu[:4])


@pytest.mark.parametrize(
    ("usage", "money"),
    [
        (Usage(instances=2.0), 0.2),
        (Usage(puts_per_second=1.0), 3.6 * 0.005),
        (Usage(gets_per_second=1.0), 3.6 * 0.0004),
        (Usage(stored_bytes=10 * GB), 0.001),
        (Usage(network_bytes_per_second=GB / 3600), 0.01),
        (Usage(cpu_cores=2.0, memory_bytes=4 * GB), 0.0),
    ],
)
def test_money_for_an_hour_of_each_thing(usage: Usage, money: float) -> None:
    assert PRICES.per_hour(usage) == pytest.approx(money)


def test_a_share_of_a_cluster_is_paid_by_cores_and_memory() -> None:
    prices = replace(FREE, cpu_core_hour=0.03, memory_gb_hour=0.004)
    usage = Usage(cpu_cores=2.0, memory_bytes=4 * GB, instances=1.0)
    assert prices.per_hour(usage) == pytest.approx(0.076)


def test_all_leading_axes_are_the_callers() -> None:
    cores = np.array([1.0, 2.0, 3.0]).reshape(3, 1, 1)
    streams = replace(PRIMARY, cpu_cores=cores, memory_bytes=cores * GB)
    intervals = np.array([1.0, 5.0, 10.0, 60.0])
    added = compute_overhead(
        streams,
        ASSUMED_SHARES,
        new_state_bytes_per_second=np.array([[1e5], [1e6], [1e7]]),
        sync_every=intervals,
        snapshot_every=2 * intervals,
        requests_per_snapshot=2.0,
        requests_per_sync=3.0,
    )
    costs, money = weigh_cost(added, streams, ALL_COSTS), PRICES.per_hour(added)
    assert money.shape == (3, 4, len(TIERS))
    assert costs.shape == (3, 1, len(TIERS)), "no weight of these depends on the interval"
    alone = replace(PRIMARY, cpu_cores=2.0, memory_bytes=2 * GB)
    usage_of_one = replace(of_holdfast(alone, sync=10.0, snapshot=20.0), stored_bytes=0.0)
    np.testing.assert_allclose(money[1, 2], PRICES.per_hour(usage_of_one))
    np.testing.assert_allclose(costs[1, 0], weigh_cost(usage_of_one, alone, ALL_COSTS))


@given(price_lists, price_lists, usages)
def test_a_cheaper_price_list_never_asks_more(prices: Prices, other: Prices, usage: Usage) -> None:
    cheaper = replace(
        prices, **{name: min(getattr(prices, name), getattr(other, name)) for name in PRICED}
    )
    assert cheaper.per_hour(usage) <= prices.per_hour(usage)


@given(usages, usages, st.sampled_from(USED))
def test_more_of_anything_never_costs_less(overhead: Usage, primary: Usage, resource: str) -> None:
    more = replace(overhead, **{resource: getattr(overhead, resource) * 2 + 1})
    assert PRICES.per_hour(more) >= PRICES.per_hour(overhead)
    assert np.all(weigh_cost(more, primary, ALL_COSTS) >= weigh_cost(overhead, primary, ALL_COSTS))


@given(st.floats(1e-3, 1e3), st.floats(0.5, 600.0), st.floats(1.0, 1e9))
def test_costs_in_weights_do_not_depend_on_the_unit(
    scale: float, every: float, state: float
) -> None:
    scaled = replace(
        PRIMARY,
        network_bytes_per_second=8e6 * scale,
        memory_bytes=GB * scale,
        cpu_cores=2.0 * scale,
    )
    costs = weigh_cost(of_thesis(state=state, every=every), PRIMARY, ALL_COSTS)
    added = thesis_overhead(
        scaled,
        state_bytes=state * scale,
        sync_every=every,
        snapshot_every=every,
        queue_bytes=4e6 * scale,
    )
    np.testing.assert_allclose(weigh_cost(added, scaled, ALL_COSTS), costs, rtol=1e-9)


@given(st.floats(0.5, 600.0), st.floats(1.0, 10.0))
def test_a_longer_interval_never_costs_more(every: float, longer: float) -> None:
    often = of_holdfast(sync=every, snapshot=2 * every)
    seldom = of_holdfast(sync=every * longer, snapshot=2 * every * longer)
    assert np.all(PRICES.per_hour(seldom) <= PRICES.per_hour(often))
