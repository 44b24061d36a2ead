"""The expectations of the click stream hold for its output and for nothing else."""

import pandas as pd
import pytest

from holdfast.apps.click_stream.expectations import top_patterns
from tests.live.expectations import failed_kinds

pytestmark = pytest.mark.integration

GOOD = pd.DataFrame(
    {
        "at": pd.to_datetime(["2026-01-01T00:00:10Z"] * 3),
        "rank": [1, 2, 3],
        "pattern": ["/ > /cart > /checkout", "/ > / > /", None],
        "count": [7, 2, 0],
    }
)


def failed(frame: pd.DataFrame) -> list[str]:
    return failed_kinds(frame, top_patterns())


def test_good_output_meets_them_and_so_does_none() -> None:
    assert failed(GOOD) == []
    assert failed(GOOD.iloc[:0]) == []


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (GOOD.assign(rank=[0, 1, 2]), "column_values_to_be_between"),
        (GOOD.assign(count=[7, 2, -1]), "column_values_to_be_between"),
        (GOOD.assign(rank=[1, 1, 2]), "compound_columns_to_be_unique"),
        (GOOD.assign(pattern=["/ /cart", "/", None]), "column_values_to_match_regex"),
        (GOOD.assign(at=[None, *GOOD["at"][1:]]), "column_values_to_not_be_null"),
        (GOOD.assign(extra=1), "table_columns_to_match_set"),
    ],
)
def test_output_that_is_wrong_is_found(frame: pd.DataFrame, kind: str) -> None:
    assert failed(frame) == [kind]
