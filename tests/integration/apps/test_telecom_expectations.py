"""The expectations of the telecom queries hold for their output and for nothing else."""

import pandas as pd
import pytest

from holdfast.apps.telecom import expectations
from tests.live.expectations import failed_kinds

pytestmark = pytest.mark.integration

WINDOW = {
    "window_start": pd.to_datetime(["2026-01-01T00:00:00Z"] * 2),
    "window_end": pd.to_datetime(["2026-01-01T01:00:00Z"] * 2),
}
GOOD = {
    "high_mobility": pd.DataFrame(
        {
            "phone": ["1", "2"], "first_time": [10, 20], "first_x": [0.0, 0.0], "first_y": [0.0, 0.0],
            "second_time": [10, 30], "second_x": [0.0, 9e3], "second_y": [200.0, 0.0],
            "speed": [200.0, 900.0],
        }
    ),
    "overlapping_calls": pd.DataFrame(
        {
            "phone": ["1", "2"], "first_start": [10, 20], "first_end": [20, 40],
            "first_other": ["3", "3"], "second_start": [20, 20], "second_end": [25, 20],
            "second_other": ["4", "4"],
        }
    ),
    "blacklist": pd.DataFrame(
        {
            "phone": ["1", "2"], "side": ["caller", "callee"], "other": ["3", "3"],
            "time": [10, 20], "duration": [0, 60], "price": [0.0, 1.5],
        }
    ),
    "consumption_control": pd.DataFrame({**WINDOW, "caller": ["1", "2"], "calls": [20, 31]}),
    "calls_histogram": pd.DataFrame({**WINDOW, "calls": [5, 6], "callers": [3, 1]}),
}  # fmt: skip


def failed(query: str, frame: pd.DataFrame) -> list[str]:
    return failed_kinds(frame, getattr(expectations, query)())


@pytest.mark.parametrize("query", list(GOOD))
def test_good_output_meets_them_and_so_does_none(query: str) -> None:
    assert failed(query, GOOD[query]) == []
    assert failed(query, GOOD[query].iloc[:0]) == []


@pytest.mark.parametrize(
    ("query", "column", "values", "kind"),
    [
        ("high_mobility", "speed", [0.0, 900.0], "column_values_to_be_between"),
        ("high_mobility", "second_time", [9, 30], "column_pair_values_a_to_be_greater_than_b"),
        ("overlapping_calls", "first_end", [19, 40], "column_pair_values_a_to_be_greater_than_b"),
        ("blacklist", "side", ["caller", "both"], "column_values_to_be_in_set"),
        ("blacklist", "phone", ["1", None], "column_values_to_not_be_null"),
        ("consumption_control", "caller", ["1", "1"], "compound_columns_to_be_unique"),
        ("calls_histogram", "callers", [0, 1], "column_values_to_be_between"),
        ("calls_histogram", "extra", [1, 1], "table_columns_to_match_set"),
    ],
)
def test_output_that_is_wrong_is_found(
    query: str, column: str, values: list[object], kind: str
) -> None:
    assert failed(query, GOOD[query].assign(**{column: values})) == [kind]
