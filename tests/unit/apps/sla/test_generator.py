"""The events of requests are as they should be, and those that do not say everything are set aside."""

import pandas as pd
import pyarrow as pa
import pytest

from holdfast.apps.sla import generator, oracle
from holdfast.apps.sla.rules import objections

GOOD = {
    "event_time": pd.Timestamp("2026-01-01T00:00:00Z"),
    "service": "shop",
    "request_id": "r1",
    "stage": "started",
}


def test_the_same_seed_gives_the_same_events_in_order_of_time() -> None:
    first, second = (generator.records(5_000, 3) for _ in range(2))
    pd.testing.assert_frame_equal(first, second)
    assert len(first) == 5_000
    assert list(first.columns) == [part.split()[0] for part in generator.COLUMNS.split(", ")]
    assert first["event_time"].is_monotonic_increasing
    assert not first.equals(generator.records(5_000, 4))


@pytest.mark.parametrize("column", [*GOOD, None])
def test_an_event_must_say_everything(column: str | None) -> None:
    other = GOOD if column is None else GOOD | {column: None}
    schema = pa.RecordBatch.from_pylist([GOOD]).schema
    batch = pa.RecordBatch.from_pylist([GOOD, other], schema=schema)
    reason = None if column is None else f"no {column}"
    assert objections(batch).to_pylist() == [None, reason]
    assert oracle.accepted(batch.to_pandas()).tolist() == [True, column is None]
