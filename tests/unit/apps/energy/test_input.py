"""The generated readings are like those of the challenge, and the rules set aside what is no reading."""

import pandas as pd
import pyarrow as pa
import pytest

from holdfast.apps.energy import generator, oracle
from holdfast.apps.energy.rules import objections
from holdfast.apps.energy.vocabulary import LOAD, PLUG, WORK


def test_the_same_seed_gives_the_same_readings_in_order_of_time() -> None:
    once, again = generator.records(5_000, 1), generator.records(5_000, 1)
    pd.testing.assert_frame_equal(once, again)
    assert not once.equals(generator.records(5_000, 2))
    assert len(once) == 5_000
    assert once["timestamp"].is_monotonic_increasing
    assert list(once.columns) == [column.split()[0] for column in generator.COLUMNS.split(", ")]
    assert oracle.accepted(once).all()
    assert not oracle.accepted(once.assign(value=-1.0)).any()


def test_two_hundred_thousand_readings_outlast_the_longest_window_twice() -> None:
    times = generator.records(200_000, 1)["timestamp"]
    assert times.iloc[-1] - times.iloc[0] > 2 * 86400


def test_loads_are_missing_where_work_is_reported_and_one_counter_starts_again() -> None:
    readings = generator.records(50_000, 1)
    kinds = readings["property"].value_counts()
    assert 1.02 < kinds[WORK] / kinds[LOAD] < 1.2
    works = readings[readings["property"] == WORK].groupby(list(PLUG))["value"]
    assert (works.diff() < 0).sum() == 1


def record(**fields: object) -> dict[str, object]:
    ids = {"plug_id": 0, "household_id": 0, "house_id": 0}
    return {"id": 1, "timestamp": 10, "value": 1.5, "property": 1, **ids, **fields}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, None),
        ({"property": 0, "value": 0.0}, None),
        ({"house_id": None}, "house_id is not between 0 and 1048575"),
        ({"household_id": -1}, "household_id is not between 0 and 1048575"),
        ({"plug_id": 1 << 20}, "plug_id is not between 0 and 1048575"),
        ({"value": None}, "value is not between 0 and 1000000"),
        ({"value": -0.1}, "value is not between 0 and 1000000"),
        ({"value": float("nan")}, "value is not between 0 and 1000000"),
        ({"value": 1e300, "property": 2}, "value is not between 0 and 1000000"),
        ({"property": 2}, "property is not between 0 and 1"),
        ({"timestamp": 1_377_986_401_000}, "timestamp is not between 0 and 4294967295"),
    ],
)
def test_what_is_no_reading_is_set_aside_with_a_reason(
    fields: dict[str, object], reason: str | None
) -> None:
    rows = [record(), record(**fields)]
    assert objections(pa.RecordBatch.from_pylist(rows)).to_pylist() == [None, reason]
    assert oracle.accepted(pd.DataFrame(rows)).tolist() == [True, reason is None]
