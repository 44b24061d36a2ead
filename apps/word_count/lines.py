"""Words of text lines counted in tumbling windows: a stateless mapper, and a reducer with state."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, functions as sf

WORD = r"[\p{L}\p{N}]+(?:'[\p{L}\p{N}]+)*"


def build(df: DataFrame, params: Mapping[str, Any]) -> DataFrame:
    """Count each word in each `window`, and give a window out once it is `delay` in the past.

    The watermark stands behind the mapper, so it follows the words: a line without
    any does not move it.
    """
    words = sf.regexp_extract_all(sf.lower("line"), sf.lit(WORD), sf.lit(0))
    return (
        df.select("at", sf.explode(words).alias("word"))
        .withWatermark("at", params.get("delay", "5 seconds"))
        .groupBy(sf.window("at", params.get("window", "10 seconds")), "word")
        .count()
        .select(
            sf.col("window.start").alias("window_start"),
            sf.col("window.end").alias("window_end"),
            "word",
            "count",
        )
    )
