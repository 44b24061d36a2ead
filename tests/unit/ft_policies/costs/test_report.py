"""What fault tolerance cost in a day, against one tier all day."""

import pytest

from holdfast.ft_policies.costs.report import CostRow, add_up_rows
from holdfast.ft_policies.prediction.steps import TIERS
from holdfast.ft_policies.tiers import Tier
from tests.builders.reports import a_day

HOUR = 3600.0
PASSIVE, HOT, ACTIVE = (
    Tier.PASSIVE_REPLICATION,
    Tier.PASSIVE_STANDBY_HOT,
    Tier.ACTIVE_REPLICATION,
)


def test_a_day_in_three_tiers_is_the_sum_of_its_hours() -> None:
    row = a_day((ACTIVE, 0, 2), (HOT, 2, 10), (PASSIVE, 10, 24))
    assert row.tier_seconds[HOT] == 8 * HOUR
    assert (row.share(ACTIVE), row.ran_seconds) == (pytest.approx(2 / 24), 24 * HOUR)
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


def test_days_add_up() -> None:
    spans = [(ACTIVE, 0.0, 30.0), (PASSIVE, 30.0, 48.0)]
    first = a_day(*spans, recoveries=[3.0])
    second = a_day(*spans, recoveries=[12.0], hours=(24.0, 48.0))
    both = add_up_rows([first, second])
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
