"""The query of the adaptive benchmark: its state is what came lately, so it grows and shrinks with the rate.

Every row is an entry of its own with a text of about `payload_bytes`, kept for `keep` and put out once.
"""

from typing import Any

from pyspark.sql import DataFrame, functions as sf

from benchmarks.plain.stateful_state import text_of


def build(df: DataFrame, params: dict[str, Any]) -> DataFrame:
    """The row's number, and how often it was seen: once, unless an epoch was lost or doubled."""
    return (
        df.select("event_time", "offset")
        .withColumn("payload", text_of("offset", params["payload_bytes"]))
        .withWatermark("event_time", params["keep"])
        .groupBy(sf.window("event_time", params["window"]), "offset")
        .agg(sf.count("*").alias("events"), sf.max("payload").alias("payload"))
        .select("offset", "events", sf.length("payload").alias("payload_bytes"))
    )
