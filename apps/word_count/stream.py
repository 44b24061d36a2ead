"""Words counted in tumbling windows: the smallest stream that has state and a watermark."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, functions as F  # noqa: N812 - as all of Spark's own guides do

from holdfast.apps.word_count.vocabulary import VOCABULARY


def build(df: DataFrame, params: Mapping[str, Any]) -> DataFrame:
    """Count each word in each `window`, and give a window out once it is `delay` in the past."""
    words = ", ".join(f"'{word}'" for word in VOCABULARY)
    word = F.expr(f"element_at(array({words}), pmod(key, {len(VOCABULARY)}) + 1)")
    return (
        df.select("event_time", word.alias("word"))
        .withWatermark("event_time", params.get("delay", "5 seconds"))
        .groupBy(F.window("event_time", params.get("window", "10 seconds")), "word")
        .count()
        .select(
            F.col("window.start").alias("window_start"),
            F.col("window.end").alias("window_end"),
            "word",
            "count",
        )
    )
