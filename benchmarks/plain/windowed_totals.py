"""The query of the overhead benchmark: a windowed aggregation by key. It knows nothing of Holdfast."""

from typing import Any

from pyspark.sql import DataFrame, functions as sf


def build(df: DataFrame, params: dict[str, Any]) -> DataFrame:
    """Count, sum and greatest value by key and tumbling window."""
    return (
        df.withWatermark("event_time", params["delay"])
        .groupBy(sf.window("event_time", params["window"]), "key")
        .agg(
            sf.count("*").alias("events"),
            sf.sum("value").alias("total"),
            sf.max("value").alias("greatest"),
        )
        .select("window.start", "window.end", "key", "events", "total", "greatest")
    )
