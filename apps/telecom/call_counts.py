"""Calls counted in windows of their own time."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, functions as sf


def count_calls(df: DataFrame, params: Mapping[str, Any]) -> DataFrame:
    """How many `calls` each `caller` made in each `window`, once it is `delay` in the past."""
    return (
        df.select("caller", sf.timestamp_seconds("time").alias("event_time"))
        .withWatermark("event_time", params["delay"])
        .groupBy(sf.window("event_time", params["window"], params["slide"]), "caller")
        .agg(sf.count("*").alias("calls"))
    )
