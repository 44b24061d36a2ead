"""The expectations of the sentiment query hold for its output and for nothing else."""

import pandas as pd
import pytest

from holdfast.apps.sentiment.expectations import windowed
from tests.live.expectations import failed_kinds

pytestmark = pytest.mark.integration

GOOD = pd.DataFrame(
    {
        "window_start": pd.to_datetime(["2026-01-01T00:00:00Z"] * 2),
        "window_end": pd.to_datetime(["2026-01-01T00:00:10Z"] * 2),
        "keyword": ["space", "taxi"],
        "tweets": [1, 7],
        "positive": [1, 2],
        "negative": [0, 5],
        "score": [3, -9],
    }
)


def failed(frame: pd.DataFrame) -> list[str]:
    return failed_kinds(frame, windowed())


def test_good_output_meets_them_and_so_does_none() -> None:
    assert failed(GOOD) == []
    assert failed(GOOD.iloc[:0]) == []


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (GOOD.assign(tweets=0, positive=0, negative=0), "column_values_to_be_between"),
        (GOOD.assign(positive=8), "column_pair_values_a_to_be_greater_than_b"),
        (GOOD.assign(negative=8), "column_pair_values_a_to_be_greater_than_b"),
        (GOOD.assign(window_end=GOOD["window_start"]), "column_pair_values_a_to_be_greater_than_b"),
        (GOOD.assign(keyword="taxi"), "compound_columns_to_be_unique"),
        (GOOD.assign(score=[None, 1]), "column_values_to_not_be_null"),
        (GOOD.assign(extra=1), "table_columns_to_match_set"),
    ],
)
def test_output_that_is_wrong_is_found(frame: pd.DataFrame, kind: str) -> None:
    assert failed(frame) == [kind]
