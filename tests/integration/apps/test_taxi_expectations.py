"""The expectations of the taxi queries hold for their output and for nothing else."""

from collections.abc import Callable
from functools import cache
from typing import Any

import great_expectations as gx
import pandas as pd
import pytest

from holdfast.apps.taxi import frequent_routes, generator, oracle, profitable_areas
from holdfast.apps.taxi.expectations import (
    frequent_routes as of_routes,
    profitable_areas as of_areas,
)
from holdfast.apps.taxi.trips import ORDER
from tests.live.expectations import failed_kinds

pytestmark = pytest.mark.integration

Suite = Callable[[], gx.ExpectationSuite]


@cache  # when a test needs it: every worker imports this module, one runs its tests
def output_of(query: Any) -> pd.DataFrame:
    rows = generator.records(3_000, seed=1)
    for time in ("pickup_datetime", "dropoff_datetime"):
        rows[time] = pd.to_datetime(rows[time])
    output, _ = query.build_fold({})(rows.loc[oracle.accepted(rows), list(ORDER)], None)
    return output


def failed(frame: pd.DataFrame, suite: Suite) -> list[str]:
    return failed_kinds(frame, suite())


@pytest.mark.parametrize(
    ("query", "suite"), [(frequent_routes, of_routes), (profitable_areas, of_areas)]
)
def test_output_meets_them_and_so_does_no_output(query: Any, suite: Suite) -> None:
    good = output_of(query)
    assert good.isna().any(axis=None)
    assert failed(good, suite) == []
    assert failed(good.iloc[:0], suite) == []


@pytest.mark.parametrize(
    ("query", "changes", "suite", "kind"),
    [
        (frequent_routes, {"end_cell_id_3": "301.7"}, of_routes, "column_values_to_match_regex"),
        (frequent_routes, {"start_cell_id_1": None}, of_routes, "column_values_to_not_be_null"),
        (
            frequent_routes,
            {"pickup_datetime": pd.Timestamp("2020-01-01")},
            of_routes,
            "column_pair_values_a_to_be_greater_than_b",
        ),
        (frequent_routes, {"extra": 1}, of_routes, "table_columns_to_match_set"),
        (
            profitable_areas,
            {"profitable_cell_id_1": "0.1"},
            of_areas,
            "column_values_to_match_regex",
        ),
        (
            profitable_areas,
            {"empty_taxis_in_cell_id_1": 0},
            of_areas,
            "column_values_to_be_between",
        ),
        (
            profitable_areas,
            {"median_profit_in_cell_id_2": -1.0},
            of_areas,
            "column_values_to_be_between",
        ),
        (
            profitable_areas,
            {"profitability_of_cell_10": 1e6},
            of_areas,
            "column_pair_values_a_to_be_greater_than_b",
        ),
    ],
)
def test_a_list_that_is_wrong_is_found(
    query: Any, changes: dict[str, Any], suite: Suite, kind: str
) -> None:
    assert failed(output_of(query).assign(**changes), suite) == [kind]
