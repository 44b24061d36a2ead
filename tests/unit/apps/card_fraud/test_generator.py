"""Card transactions are as they should be, and those that are of no use are set aside."""

import pandas as pd
import pyarrow as pa
import pytest

from holdfast.apps.card_fraud import generator, oracle
from holdfast.apps.card_fraud.rules import objections

GOOD = {
    "transaction_id": 1,
    "event_time": pd.Timestamp("2026-01-01T00:00:00Z"),
    "issuer": "bank",
    "card": "4000000000000001",
    "seller_id": "s1",
    "amount_cents": 100,
    "present": True,
    "latitude": 52.5,
    "longitude": 13.4,
}


def test_the_same_seed_gives_the_same_transactions_in_order_of_time() -> None:
    first, second = (generator.records(5_000, 3) for _ in range(2))
    pd.testing.assert_frame_equal(first, second)
    assert len(first) == 5_000
    assert list(first.columns) == [part.split()[0] for part in generator.COLUMNS.split(", ")]
    assert first["event_time"].is_monotonic_increasing
    assert not first.equals(generator.records(5_000, 4))


def test_some_cards_are_copied_and_few_transactions_are_of_no_use() -> None:
    rows = generator.records(20_000, 3).assign(epoch=0)
    good = rows[oracle.accepted(rows)]
    assert 0 < len(rows) - len(good) < 100
    assert len(oracle.impossible_travel(good, {}, last_epoch=0)[0]) > 50


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({}, None),
        ({"present": False, "latitude": None, "longitude": None}, None),
        ({"seller_id": None}, None),
        ({"card": None}, "no card"),
        ({"event_time": None}, "no event_time"),
        ({"present": None}, "no present"),
        ({"latitude": None}, "present, but nowhere"),
        ({"latitude": 90.1}, "not a place on Earth"),
        ({"present": False, "longitude": -181.0}, "not a place on Earth"),
    ],
)
def test_what_is_of_no_use_has_a_reason(changed: dict[str, object], reason: str | None) -> None:
    schema = pa.RecordBatch.from_pylist([GOOD]).schema
    batch = pa.RecordBatch.from_pylist([GOOD, GOOD | changed], schema=schema)
    assert objections(batch).to_pylist() == [None, reason]
    assert oracle.accepted(batch.to_pandas()).tolist() == [True, reason is None]
