"""Readings that parse well and cannot be true."""

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.apps.energy.vocabulary import IDS, LARGEST_VALUE, LAST_SECOND, LOAD, PLUG, WORK

LIMITS = {
    "timestamp": (0, LAST_SECOND),
    "value": (0, LARGEST_VALUE),
    "property": (WORK, LOAD),
    **dict.fromkeys(PLUG, (0, IDS - 1)),
}


def objections(batch: pa.RecordBatch) -> pa.StringArray:
    """Why each reading is set aside, or null."""
    reasons = pa.nulls(len(batch), pa.string())
    for field, (least, most) in LIMITS.items():
        column = batch[field]
        within = pc.and_(pc.greater_equal(column, least), pc.less_equal(column, most))
        reason = pc.if_else(
            pc.fill_null(within, fill_value=False),
            None,
            f"{field} is not between {least} and {most}",
        )
        reasons = pc.coalesce(reasons, reason)
    return reasons
