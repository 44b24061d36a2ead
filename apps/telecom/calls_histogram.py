"""How many callers made how many expensive calls: a histogram for each window of an hour."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, functions as sf

from holdfast.apps.telecom.call_counts import count_calls

DEFAULTS = {
    "window": "1 hour",
    "slide": "10 minutes",
    "delay": "1 minute",
    "price_above": 5,
    "least_calls": 5,
    "most_calls": 10,
}


def build(df: DataFrame, params: Mapping[str, Any]) -> DataFrame:
    """Callers for each number of calls, from `least_calls` to `most_calls`, above a price."""
    given = {**DEFAULTS, **params}
    expensive = df.where(sf.col("price") > given["price_above"])
    return (
        count_calls(expensive, given)
        .where(sf.col("calls").between(given["least_calls"], given["most_calls"]))
        .groupBy("window", "calls")
        .agg(sf.count("*").alias("callers"))
        .select(
            sf.col("window.start").alias("window_start"),
            sf.col("window.end").alias("window_end"),
            "calls",
            "callers",
        )
    )
