"""Which tweets are set aside although they can be read: those that lack a value."""

import pyarrow as pa
import pyarrow.compute as pc

NEEDED = ("created_at", "id", "text")
FINE = pa.scalar(None, pa.string())


def objections(batch: pa.RecordBatch) -> pa.StringArray:
    """For each tweet why it is set aside, or null."""
    return pc.coalesce(
        *(pc.if_else(batch.column(name).is_null(), f"no {name}", FINE) for name in NEEDED)
    )
