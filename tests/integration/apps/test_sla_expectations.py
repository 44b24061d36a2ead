"""The expectations of the conformance query hold for its verdicts and for nothing else."""

import pandas as pd
import pytest

from holdfast.apps.sla.expectations import conformance
from tests.live.expectations import failed_kinds

pytestmark = pytest.mark.integration

GOOD = pd.DataFrame(
    {
        "service": ["shop", "pay", "pay"],
        "request_id": ["r1", "r2", "r3"],
        "verdict": ["conforming", "late", "missing"],
        "started_at": pd.to_datetime(["2026-01-01T00:00:00Z"] * 3),
        "ended_at": pd.to_datetime(["2026-01-01T00:00:01Z", "2026-01-01T00:00:09Z", None]),
    }
)


def failed(frame: pd.DataFrame) -> list[str]:
    return failed_kinds(frame, conformance())


def test_good_output_meets_them_and_so_does_none() -> None:
    assert failed(GOOD) == []
    assert failed(GOOD.iloc[:0]) == []


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (GOOD.assign(verdict=["conforming", "late", "open"]), "column_values_to_be_in_set"),
        (GOOD.assign(service=["shop", "pay", None]), "column_values_to_not_be_null"),
        (
            GOOD.assign(started_at=pd.Timestamp("2026-01-01T00:00:05Z")),
            "column_pair_values_a_to_be_greater_than_b",
        ),
        (GOOD.assign(extra=1), "table_columns_to_match_set"),
    ],
)
def test_output_that_is_wrong_is_found(frame: pd.DataFrame, kind: str) -> None:
    assert failed(frame) == [kind]
