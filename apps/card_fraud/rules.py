"""Transactions that can be read and are of no use all the same."""

import pyarrow as pa
import pyarrow.compute as pc

NEEDED = ("transaction_id", "event_time", "issuer", "card", "amount_cents", "present")


def objections(batch: pa.RecordBatch) -> pa.StringArray:
    """Why a transaction is set aside: something is missing, or its place is none on Earth."""
    latitude, longitude = batch["latitude"], batch["longitude"]
    unplaced = pc.or_(latitude.is_null(), longitude.is_null())
    elsewhere = pc.or_(pc.greater(pc.abs(latitude), 90.0), pc.greater(pc.abs(longitude), 180.0))
    reasons = {
        **{f"no {name}": batch[name].is_null() for name in NEEDED},
        "present, but nowhere": pc.and_(batch["present"], unplaced),
        "not a place on Earth": elsewhere,
    }
    return pc.case_when(pc.make_struct(*reasons.values()), *reasons)
