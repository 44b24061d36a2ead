"""Small applications and sinks for streams under test."""

import json
import os
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, functions as sf

WRITES = "HOLDFAST_TEST_WRITES"


def unchanged(df: DataFrame, params: dict[str, Any]) -> DataFrame:
    """The input is the output."""
    return df


def with_maps(df: DataFrame, params: dict[str, Any]) -> DataFrame:
    """Output with a parity to partition by and nested columns, a map among them."""
    return df.select(
        "offset",
        (sf.col("offset") % 2).alias("parity"),
        sf.create_map(sf.lit("key"), "key").alias("tags"),
        sf.array(sf.struct("value")).alias("values"),
    )


def counted(df: DataFrame, params: dict[str, Any]) -> DataFrame:
    """How often each key was seen: what comes out depends on all that went in."""
    return df.groupBy("key").count()


def write_lines(df: DataFrame, epoch: int) -> None:
    """A user's own sink: one JSON line a call."""
    with Path(os.environ[WRITES]).open("a") as lines:
        lines.write(json.dumps({"epoch": epoch, "rows": df.count()}) + "\n")


def write_and_fail_once(df: DataFrame, epoch: int) -> None:
    """A sink that writes and then fails, the first time it sees epoch 1."""
    written = Path(os.environ[WRITES]).read_text() if Path(os.environ[WRITES]).exists() else ""
    write_lines(df, epoch)
    if epoch == 1 and '"epoch": 1' not in written:
        raise RuntimeError("the user's sink broke")


def signed(df: DataFrame, params: dict[str, Any]) -> DataFrame:
    """Not deterministic: every driver signs its rows with the number of its process."""
    return df.select("offset", sf.lit(os.getpid()).alias("process"))


def counted_otherwise(df: DataFrame, params: dict[str, Any]) -> DataFrame:
    """A word count with other state than the word count's: Spark does not go on from that."""
    times = df.withWatermark("event_time", "1 second")
    groups = times.groupBy(sf.window("event_time", "2 seconds"), "key")
    return groups.agg(sf.count("*").alias("count"), sf.max("event_time").alias("last"))


def matched(df: DataFrame, params: dict[str, Any]) -> DataFrame:
    """Each row with itself, by a join of two streams: it has four state stores a partition."""
    left = df.withWatermark("event_time", "1 second").select("offset", "event_time")
    right = df.withWatermark("event_time", "1 second").select(
        sf.col("offset").alias("other"), sf.col("event_time").alias("at")
    )
    near = sf.col("at").between(
        sf.col("event_time") - sf.expr("INTERVAL 1 SECOND"),
        sf.col("event_time") + sf.expr("INTERVAL 1 SECOND"),
    )
    return left.join(right, (sf.col("offset") == sf.col("other")) & near).select("offset")
