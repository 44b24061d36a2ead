"""The expectations of the synthetic load hold for its output and for nothing else."""

import pandas as pd
import pytest

from holdfast.apps.synthetic.expectations import load
from tests.live.expectations import failed_kinds

pytestmark = pytest.mark.integration

GOOD = pd.DataFrame(
    {
        "window_start": pd.to_datetime(["2026-01-01T00:00:00Z"] * 2),
        "window_end": pd.to_datetime(["2026-01-01T00:01:00Z"] * 2),
        "entry": [0, 999],
        "events": [7, 1],
        "checksum": [12_345, 0],
        "payload_bytes": [256, 256],
    }
)


def failed(frame: pd.DataFrame) -> list[str]:
    return failed_kinds(frame, load())


def test_good_output_meets_them_and_so_does_none() -> None:
    assert failed(GOOD) == []
    assert failed(GOOD.iloc[:0]) == []


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (GOOD.assign(events=[0, 1]), "column_values_to_be_between"),
        (GOOD.assign(entry=[-1, 1]), "column_values_to_be_between"),
        (GOOD.assign(checksum=[1.0, None]), "column_values_to_not_be_null"),
        (
            GOOD.assign(window_end=GOOD["window_start"]),
            "column_pair_values_a_to_be_greater_than_b",
        ),
        (GOOD.assign(extra=1), "table_columns_to_match_set"),
    ],
)
def test_output_that_is_wrong_is_found(frame: pd.DataFrame, kind: str) -> None:
    assert failed(frame) == [kind]
