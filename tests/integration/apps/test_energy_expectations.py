"""The expectations of the energy queries hold for their output and for nothing else."""

import pandas as pd
import pytest

from holdfast.apps.energy import expectations
from tests.live.expectations import failed_kinds

pytestmark = pytest.mark.integration

PLUG = {"house_id": [1, 1], "household_id": [0, 0], "plug_id": [2, 3]}
GOOD = {
    "completion": pd.DataFrame(
        {
            "timestamp": [60, 120],
            **PLUG,
            "load": [0.0, 80.5],
            "seconds": [1, 30],
            "synthetic": [False, True],
        }
    ),
    "prediction": pd.DataFrame(
        {
            "timestamp": [300, 300],
            "window_seconds": [60, 60],
            "slice_start": [360, 360],
            "level": ["plug", "house"],
            "house_id": [1, 1],
            "household_id": [0, None],
            "plug_id": [2, None],
            "load": [12.5, 12.5],
        }
    ),
    "outlier": pd.DataFrame(
        {
            "timestamp": [60, 120],
            "window_seconds": [3600, 3600],
            "house_id": [1, 1],
            "above": [0, 2],
            "plugs": [3, 2],
            "ratio": [0.0, 1.0],
        }
    ),
}


def failed(query: str, frame: pd.DataFrame) -> list[str]:
    return failed_kinds(frame, getattr(expectations, query)())


@pytest.mark.parametrize("query", GOOD)
def test_good_output_meets_them_and_so_does_none(query: str) -> None:
    assert failed(query, GOOD[query]) == []
    assert failed(query, GOOD[query].iloc[:0]) == []


@pytest.mark.parametrize(
    ("query", "wrong", "kind"),
    [
        ("completion", {"load": [-1.0, 0.0]}, "column_values_to_be_between"),
        ("completion", {"seconds": [0, 1]}, "column_values_to_be_between"),
        ("completion", {"plug_id": [1, None]}, "column_values_to_not_be_null"),
        ("prediction", {"level": ["plug", "street"]}, "column_values_to_be_in_set"),
        ("prediction", {"load": [1.0, None]}, "column_values_to_not_be_null"),
        ("prediction", {"slice_start": [300, 360]}, "column_pair_values_a_to_be_greater_than_b"),
        ("outlier", {"ratio": [0.5, 1.5]}, "column_values_to_be_between"),
        ("outlier", {"above": [4, 2]}, "column_pair_values_a_to_be_greater_than_b"),
        ("outlier", {"extra": [1, 1]}, "table_columns_to_match_set"),
    ],
)
def test_output_that_is_wrong_is_found(
    query: str, wrong: dict[str, list[object]], kind: str
) -> None:
    assert failed(query, GOOD[query].assign(**wrong)) == [kind]
