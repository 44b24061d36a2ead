"""Impossible call records are set aside, each with its reason, and the oracle agrees on which."""

import math
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from holdfast.apps.telecom.oracle import accepted
from holdfast.apps.telecom.rules import objections

GOOD = {
    "caller": "34600000000", "callee": "34600004001", "time": 1_767_247_200, "duration": 60,
    "price": 0.1, "caller_x": 1.0, "caller_y": 2.0, "callee_x": 3.0, "callee_y": 4.0,
}  # fmt: skip
SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("caller", "callee")),
        *((name, pa.int64()) for name in ("time", "duration")),
        *((name, pa.float64()) for name in list(GOOD)[4:]),
    ]
)


def objection(changes: dict[str, Any]) -> str | None:
    """Why a record with these values is set aside, when it comes after a good one."""
    records = [GOOD, {**GOOD, **changes}]
    batch = pa.RecordBatch.from_pylist(records, schema=SCHEMA)
    [none, objection] = objections(batch).to_pylist()
    assert none is None
    assert accepted(pd.DataFrame(records)).to_list() == [True, objection is None]
    reason: str | None = objection
    return reason


def test_a_possible_record_is_let_through() -> None:
    assert objection({}) is None
    assert objection({"duration": 0, "price": 0.0, "time": 0}) is None


@pytest.mark.parametrize("column", list(GOOD))
def test_no_value_may_be_missing(column: str) -> None:
    assert objection({column: None}) == "a value is missing"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"caller": ""}, "a value is missing"),
        ({"callee": GOOD["caller"]}, "the phone calls itself"),
        ({"time": -1}, "the time is not between 1970 and 2100"),
        ({"time": 2**62}, "the time is not between 1970 and 2100"),
        ({"duration": -1}, "the duration is not between none and a day"),
        ({"duration": 86_401}, "the duration is not between none and a day"),
        ({"price": -0.01}, "the price is negative"),
        ({"price": math.nan}, "the price or a place is not a number"),
        ({"callee_y": math.nan}, "the price or a place is not a number"),
        ({"caller_x": math.inf}, "the price or a place is not a number"),
        ({"time": -1, "duration": -1}, "the time is not between 1970 and 2100"),
    ],
)
def test_impossible_values_are_named(changes: dict[str, Any], reason: str) -> None:
    assert objection(changes) == reason


def test_the_answer_to_no_records_is_no_objections() -> None:
    nothing = objections(pa.RecordBatch.from_pylist([], schema=SCHEMA))
    assert nothing.type == pa.string()
    assert len(nothing) == 0
