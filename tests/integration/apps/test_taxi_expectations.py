"""The expectations of the taxi queries hold for their output and for nothing else."""

from collections.abc import Callable
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


def told_by(query: Any) -> pd.DataFrame:
    rows = generator.records(3_000, seed=1)
    for time in ("pickup_datetime", "dropoff_datetime"):
        rows[time] = pd.to_datetime(rows[time])
    output, _ = query.build_fold({})(rows.loc[oracle.accepted(rows), list(ORDER)], None)
    return output


ROUTES, AREAS = told_by(frequent_routes), told_by(profitable_areas)


def failed(frame: pd.DataFrame, suite: Suite) -> list[str]:
    return failed_kinds(frame, suite())


@pytest.mark.parametrize(("good", "suite"), [(ROUTES, of_routes), (AREAS, of_areas)])
def test_what_is_told_meets_them_and_so_does_nothing_told(good: pd.DataFrame, suite: Suite) -> None:
    assert good.isna().any(axis=None)
    assert failed(good, suite) == []
    assert failed(good.iloc[:0], suite) == []


@pytest.mark.parametrize(
    ("frame", "suite", "kind"),
    [
        (ROUTES.assign(end_cell_id_3="301.7"), of_routes, "column_values_to_match_regex"),
        (ROUTES.assign(start_cell_id_1=None), of_routes, "column_values_to_not_be_null"),
        (
            ROUTES.assign(pickup_datetime=pd.Timestamp("2020-01-01")),
            of_routes,
            "column_pair_values_a_to_be_greater_than_b",
        ),
        (ROUTES.assign(extra=1), of_routes, "table_columns_to_match_set"),
        (AREAS.assign(profitable_cell_id_1="0.1"), of_areas, "column_values_to_match_regex"),
        (AREAS.assign(empty_taxis_in_cell_id_1=0), of_areas, "column_values_to_be_between"),
        (AREAS.assign(median_profit_in_cell_id_2=-1.0), of_areas, "column_values_to_be_between"),
        (
            AREAS.assign(profitability_of_cell_10=1e6),
            of_areas,
            "column_pair_values_a_to_be_greater_than_b",
        ),
    ],
)
def test_a_list_that_is_wrong_is_found(frame: pd.DataFrame, suite: Suite, kind: str) -> None:
    assert failed(frame, suite) == [kind]
