"""Trip records that cannot be true are set aside; the oracle accepts the others."""

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from holdfast.apps.taxi import generator, oracle
from holdfast.apps.taxi.rules import objections

MISSING = "a value that is needed is missing"
NOWHERE = "a position is missing (0/0)"
OFF_EARTH = "a position is not on earth"
AMOUNT = "fare or tip is negative, or more than 10,000"


def trip(**values: Any) -> pd.DataFrame:
    """One good trip, with other values in some columns."""
    rows = generator.records(1, seed=3)
    for time in ("pickup_datetime", "dropoff_datetime"):
        rows[time] = pd.to_datetime(rows[time])
    return rows.assign(**values)


def reasons(rows: pd.DataFrame) -> list[str | None]:
    reasons: list[str | None] = objections(pa.RecordBatch.from_pandas(rows)).to_pylist()
    return reasons


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({}, None),
        ({"dropoff_longitude": -75.16, "dropoff_latitude": 39.95}, None),
        ({"pickup_longitude": 0.0}, None),
        ({"total_amount": None, "payment_type": None}, None),
        ({"medallion": None}, MISSING),
        ({"dropoff_datetime": pd.NaT}, MISSING),
        ({"dropoff_datetime": pd.Timestamp("2013-01-01")}, "the trip ends before it starts"),
        ({"pickup_longitude": 0.0, "pickup_latitude": 0.0}, NOWHERE),
        ({"dropoff_longitude": 0.0, "dropoff_latitude": 0.0}, NOWHERE),
        ({"dropoff_latitude": 4_075.8}, OFF_EARTH),
        ({"pickup_longitude": float("-inf")}, OFF_EARTH),
        ({"fare_amount": -0.01}, AMOUNT),
        ({"tip_amount": 10_000.01}, AMOUNT),
    ],
)
def test_a_record_that_cannot_be_true_is_set_aside(
    values: dict[str, Any], reason: str | None
) -> None:
    rows = trip(**values)
    assert reasons(rows) == [reason]
    assert oracle.accepted(rows).tolist() == [reason is None]


def test_of_a_batch_only_the_bad_ones_are_set_aside() -> None:
    rows = pd.concat([trip(), trip(fare_amount=-1.0), trip()], ignore_index=True)
    assert reasons(rows) == [None, AMOUNT, None]
    assert reasons(rows.iloc[:0]) == []
