"""What fault tolerance cost in a day, against one tier all day."""

from collections.abc import Sequence

import numpy as np
import pytest

from ft_policies.costs.prices import Prices, Usage
from ft_policies.costs.report import CostRow, StreamDay, TierCosts, added_up, cost_row
from ft_policies.costs.tier_spans import TierSpan
from ft_policies.prediction.steps import TIERS
from ft_policies.tiers import Tier

HOUR = 3600.0
PASSIVE, HOT, ACTIVE = (
    Tier.PASSIVE_REPLICATION,
    Tier.PASSIVE_STANDBY_HOT,
    Tier.ACTIVE_REPLICATION,
)
# In the order of the tiers; the snapshots of passive_replication cost something, too.
OVERHEAD = Usage(
    cpu_cores=np.array([1.0, 1.0, 0.25, 0.25, 0.1, 0.0]),
    memory_bytes=np.array([1.0, 1.0, 0.5, 0.5, 0.5, 0.0]) * 2**30,
    network_bytes_per_second=np.array([4.0, 3.0, 6.0, 3.0, 1.0, 1.0]) * 2**30 / HOUR,
    instances=np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.0]),
    puts_per_second=np.array([0.1]),
)
UNITS = np.array([4.0, 3.0, 2.0, 1.5, 1.0, 0.5])


def prices(*, started_hours: bool = False) -> Prices:
    return Prices(
        currency="USD",
        instance_hour=1.0,
        put_per_thousand=0.01,
        get_per_thousand=0.0,
        storage_gb_month=0.0,
        traffic_gb=0.1,
        started_hours=started_hours,
    )


def a_day(
    *spans: tuple[Tier, float, float],
    recoveries: Sequence[float] = (),
    started_hours: bool = False,
    hours: tuple[float, float] = (0.0, 24.0),
) -> CostRow:
    return cost_row(
        StreamDay(
            stream="clicks",
            since=hours[0] * HOUR,
            until=hours[1] * HOUR,
            spans=[
                TierSpan(tier=tier, from_at=start * HOUR, to_at=end * HOUR)
                for tier, start, end in spans
            ],
            costs=TierCosts(
                overhead=OVERHEAD, units=UNITS, prices=prices(started_hours=started_hours)
            ),
            objective_seconds=10.0,
            recoveries=recoveries,
        )
    )


def test_a_day_in_three_tiers_is_the_sum_of_its_hours() -> None:
    row = a_day((ACTIVE, 0, 2), (HOT, 2, 10), (PASSIVE, 10, 24))
    assert row.tier_seconds[HOT] == 8 * HOUR
    assert (row.share(ACTIVE), row.ran_seconds) == (pytest.approx(2 / 24), 24 * HOUR)
    assert row.switches == 2
    snapshots = 0.1 * HOUR * 0.01 / 1000
    assert row.money == pytest.approx(2 * (1 + 0.4) + 8 * (1 + 0.6) + 14 * 0.1 + 24 * snapshots)
    assert row.money_if_active == pytest.approx(24 * (1 + 0.4 + snapshots))
    assert row.money_if_passive == pytest.approx(24 * (0.1 + snapshots))
    assert row.unit_hours == pytest.approx(2 * 4 + 8 * 2 + 14 * 0.5)
    assert (row.unit_hours_if_active, row.unit_hours_if_passive) == (24 * 4, 24 * 0.5)
    assert row.cpu_core_hours == pytest.approx(2 + 8 * 0.25)
    assert row.network_gb == pytest.approx(2 * 4 + 8 * 6 + 14)
    assert row.instance_hours == pytest.approx(10)
    assert row.requests == pytest.approx(24 * 360)


def test_always_active_costs_what_always_active_would_cost() -> None:
    row = a_day((ACTIVE, 0, 24))
    assert (row.money, row.unit_hours) == (row.money_if_active, row.unit_hours_if_active)
    assert row.saved_share == 0.0


def test_a_stream_that_did_not_run_cost_nothing() -> None:
    row = a_day()
    assert (row.money, row.money_if_active, row.saved_share) == (0.0, 0.0, None)
    assert sum(row.share(tier) for tier in TIERS) == 0.0


def test_only_the_day_counts_of_spans_that_reach_beyond_it() -> None:
    row = a_day((ACTIVE, -5, 3), (PASSIVE, 3, 40))
    assert row.tier_seconds[ACTIVE] == 3 * HOUR
    assert row.ran_seconds == 24 * HOUR


def test_a_missed_objective_is_counted() -> None:
    row = a_day((HOT, 0, 24), recoveries=[4.0, 10.0, 10.1, 31.5])
    assert (row.recoveries, row.misses, row.slowest_seconds) == (4, 2, 31.5)


def test_started_hours_are_billed_whole_and_on_the_day_that_they_start() -> None:
    short = a_day((HOT, 0.5, 0.75), (PASSIVE, 0.75, 24), started_hours=True)
    assert short.instance_hours == 1.0
    over_midnight = [(HOT, 23.5, 25.0), (PASSIVE, 25.0, 48.0)]
    first = a_day(*over_midnight, started_hours=True)
    second = a_day(*over_midnight, started_hours=True, hours=(24.0, 48.0))
    assert (first.instance_hours, second.instance_hours) == (1.0, 1.0)


def test_a_restart_is_not_a_switch() -> None:
    assert a_day((HOT, 0, 2), (PASSIVE, 3, 4)).switches == 0


def test_days_add_up() -> None:
    spans = [(ACTIVE, 0.0, 30.0), (PASSIVE, 30.0, 48.0)]
    first = a_day(*spans, recoveries=[3.0])
    second = a_day(*spans, recoveries=[12.0], hours=(24.0, 48.0))
    both = added_up([first, second])
    whole = a_day(*spans, recoveries=[3.0, 12.0], hours=(0.0, 48.0))
    assert both.money == pytest.approx(whole.money)
    assert both.unit_hours_if_active == pytest.approx(whole.unit_hours_if_active)
    assert both.tier_seconds == whole.tier_seconds
    assert (both.recoveries, both.misses, both.slowest_seconds) == (2, 1, 12.0)


def test_a_row_comes_back_from_its_cells() -> None:
    row = a_day((ACTIVE, 0, 12), (PASSIVE, 12, 24), recoveries=[11.0])
    cells = row.cells()
    assert cells["share_active_replication"] == 0.5
    assert sum(row.share(tier) for tier in TIERS) == pytest.approx(1.0)
    assert row.saved_share == pytest.approx(1.0 - row.money / row.money_if_active)
    assert all(isinstance(value, str | int | float) for value in cells.values())
    assert CostRow.of_cells(cells) == row
