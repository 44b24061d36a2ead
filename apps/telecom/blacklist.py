"""Calls from or to a listed phone."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, functions as sf

from holdfast.apps.telecom.call_sides import split_sides


def build(df: DataFrame, params: Mapping[str, Any]) -> DataFrame:
    """A row for each side of a call whose phone is among `phones`; it keeps no state."""
    listed = [str(phone) for phone in params.get("phones", ())]
    return (
        split_sides(df)
        .where(sf.col("phone").isin(listed))
        .select("phone", "side", "other", "time", "duration", "price")
    )
