"""Trip records that are well written and still cannot be true.

A trip that merely leaves the grid is true: the queries pass over it.
"""

from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

ENDS = ("pickup", "dropoff")
AMOUNTS = ("fare_amount", "tip_amount")
MOST_DOLLARS = 10_000.0


def objections(batch: pa.RecordBatch) -> pa.StringArray:
    """Why a record is set aside: the first reason that applies, or null."""
    needed = ["medallion", *AMOUNTS] + [
        f"{end}_{what}" for end in ENDS for what in ("datetime", "longitude", "latitude")
    ]
    reasons = {
        "a value that is needed is missing": _any(pc.is_null(batch[name]) for name in needed),
        "the trip ends before it starts": pc.less(
            batch["dropoff_datetime"], batch["pickup_datetime"]
        ),
        "a position is missing (0/0)": _any(_is_nowhere(batch, end) for end in ENDS),
        "a position is not on earth": _any(_is_off_earth(batch, end) for end in ENDS),
        f"fare or tip is negative, or more than {MOST_DOLLARS:,.0f}": _any(
            _is_outside(batch[name], 0.0, MOST_DOLLARS) for name in AMOUNTS
        ),
    }
    return pc.case_when(pc.make_struct(*reasons.values()), *reasons)


def _is_nowhere(batch: pa.RecordBatch, end: str) -> pa.BooleanArray:
    return pc.and_(
        pc.equal(batch[f"{end}_longitude"], 0.0), pc.equal(batch[f"{end}_latitude"], 0.0)
    )


def _is_off_earth(batch: pa.RecordBatch, end: str) -> pa.BooleanArray:
    return pc.or_(
        _is_outside(batch[f"{end}_longitude"], -180.0, 180.0),
        _is_outside(batch[f"{end}_latitude"], -90.0, 90.0),
    )


def _is_outside(values: pa.DoubleArray, least: float, most: float) -> pa.BooleanArray:
    """Not between the two; what is not a number is not, either."""
    return pc.invert(pc.and_(pc.greater_equal(values, least), pc.less_equal(values, most)))


def _any(conditions: Any) -> pa.BooleanArray:
    return reduce(pc.or_, conditions)
