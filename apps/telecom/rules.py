"""Call records that are well written and still cannot be true."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

YEAR_2100 = 4_102_444_800
DAY = 86_400


def objections(batch: pa.RecordBatch) -> pa.StringArray:
    """Why a record is set aside: the first reason that applies, or null."""
    reasons = {
        "a value is missing": _any([pc.is_null(column) for column in batch.columns]),
        "the phone calls itself": pc.equal(batch["caller"], batch["callee"]),
        "the time is not between 1970 and 2100": _outside(batch["time"], 0, YEAR_2100),
        "the duration is not between none and a day": _outside(batch["duration"], 0, DAY),
        "the price is not a positive number": pc.invert(
            pc.and_(pc.is_finite(batch["price"]), pc.greater_equal(batch["price"], 0.0))
        ),
        "a place is not a number": _any(
            [pc.invert(pc.is_finite(batch[name])) for name in _places(batch)]
        ),
    }
    return pc.case_when(pc.make_struct(*reasons.values()), *reasons)


def _outside(values: pa.Array, least: int, most: int) -> pa.BooleanArray:
    return pc.or_(pc.less(values, least), pc.greater(values, most))


def _any(conditions: list[Any]) -> Any:
    found = conditions[0]
    for condition in conditions[1:]:
        found = pc.or_(found, condition)
    return found


def _places(batch: pa.RecordBatch) -> list[str]:
    return [name for name in batch.schema.names if name.endswith(("_x", "_y"))]
