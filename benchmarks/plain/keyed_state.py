"""The query of the failover benchmark: a state of a chosen size, by key. It knows nothing of Holdfast.

Row n belongs to key n modulo `keys`, so the first `keys` rows fill the state and every later row changes
one entry of it. An entry keeps a text of about `payload_bytes` that does not compress.
"""

from typing import Any

from pyspark.sql import Column, DataFrame, functions as sf

DIGEST_CHARACTERS = 64


def build(df: DataFrame, params: dict[str, Any]) -> DataFrame:
    """Count, sum and a large text by key; only whole numbers, so that any order gives the same."""
    entry = (sf.col("offset") % sf.lit(params["keys"])).alias("entry")
    return (
        df.select(entry, (sf.col("offset") % 1000).alias("amount"))
        .withColumn("payload", text_of("entry", params["payload_bytes"]))
        .groupBy("entry")
        .agg(
            sf.count("*").alias("events"),
            sf.sum("amount").alias("total"),
            sf.max("payload").alias("payload"),
        )
        .select("entry", "events", "total", sf.length("payload").alias("payload_bytes"))
    )


def text_of(column: str, size: int) -> Column:
    """A text of about `size` bytes that follows from a column and does not compress."""
    parts = range(max(size // DIGEST_CHARACTERS, 1))
    return sf.concat(*(sf.sha2(sf.concat_ws("/", column, sf.lit(n)), 256) for n in parts))
