"""Readings that parse well and cannot be true."""

from collections.abc import Iterable
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from apps.energy.vocabulary import IDS, LOAD, PLUG, WORK

_FIELDS = ("timestamp", "value", "property", *PLUG)


def objections(batch: pa.RecordBatch) -> pa.StringArray:
    """Why each reading is set aside, or null."""
    value, kind = batch["value"], batch["property"]
    missing = _any(pc.is_null(batch[field]) for field in _FIELDS)
    outside = _any(_outside(batch[field], IDS) for field in PLUG)
    return pc.case_when(
        pc.make_struct(
            missing,
            pc.or_(pc.less(value, 0), pc.invert(pc.is_finite(value))),
            pc.invert(pc.is_in(kind, value_set=pa.array([WORK, LOAD], kind.type))),
            pc.less(batch["timestamp"], 0),
            outside,
        ),
        "a field is missing",
        "the value is negative or not a number",
        "the property is neither work nor load",
        "the timestamp is before 1970",
        f"an id is not between 0 and {IDS - 1}",
    )


def _outside(ids: pa.Array, limit: int) -> pa.Array:
    return pc.or_(pc.less(ids, 0), pc.greater_equal(ids, limit))


def _any(found: Iterable[pa.Array]) -> pa.Array:
    return reduce(pc.or_kleene, found)
