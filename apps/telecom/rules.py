"""Call records that are well written and still cannot be true."""

from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

YEAR_2100 = 4_102_444_800
DAY = 86_400
PLACES = ("caller_x", "caller_y", "callee_x", "callee_y")


def objections(batch: pa.RecordBatch) -> pa.StringArray:
    """Why a record is set aside: the first reason that applies, or null."""
    unnamed = [pc.equal(pc.fill_null(batch[side], ""), "") for side in ("caller", "callee")]
    reasons = {
        "a value is missing": reduce(pc.or_, [*map(pc.is_null, batch.columns), *unnamed]),
        "the phone calls itself": pc.equal(batch["caller"], batch["callee"]),
        "the time is not between 1970 and 2100": _outside(batch["time"], 0, YEAR_2100),
        "the duration is not between none and a day": _outside(batch["duration"], 0, DAY),
        "the price is negative": pc.less(batch["price"], 0.0),
        "the price or a place is not a number": reduce(
            pc.or_, [pc.invert(pc.is_finite(batch[name])) for name in ("price", *PLACES)]
        ),
    }
    return pc.case_when(pc.make_struct(*reasons.values()), *reasons)


def _outside(values: pa.Array, least: int, most: int) -> pa.BooleanArray:
    return pc.or_(pc.less(values, least), pc.greater(values, most))
