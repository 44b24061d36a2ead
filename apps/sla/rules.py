"""Events that can be read and do not say everything."""

import pyarrow as pa
import pyarrow.compute as pc


def objections(batch: pa.RecordBatch) -> pa.StringArray:
    """Why an event is set aside: something is missing."""
    reasons = {f"no {name}": batch[name].is_null() for name in batch.schema.names}
    return pc.case_when(pc.make_struct(*reasons.values()), *reasons)
