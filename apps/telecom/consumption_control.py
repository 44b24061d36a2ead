"""Phones that are not used by hand: very many calls within minutes."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, functions as sf

from holdfast.apps.telecom.call_counts import count_calls

DEFAULTS = {"window": "5 minutes", "slide": "1 minute", "delay": "1 minute", "least_calls": 20}


def build(df: DataFrame, params: Mapping[str, Any]) -> DataFrame:
    """Callers with at least `least_calls` calls in a window."""
    given = {**DEFAULTS, **params}
    return (
        count_calls(df, given)
        .where(sf.col("calls") >= given["least_calls"])
        .select(
            sf.col("window.start").alias("window_start"),
            sf.col("window.end").alias("window_end"),
            "caller",
            "calls",
        )
    )
