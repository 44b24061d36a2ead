"""A load whose cost is chosen: CPU a row, size of the state, and how evenly its entries are used.

Rows have the columns of the `rate` source. Every row belongs to an entry of the state:

- without `keys` each row is an entry of its own, so the state follows the rate;
- with `keys` row n belongs to entry n modulo `keys`, so that many rows fill the state;
- with `skew`, too, entry 0 has the most rows, and the one that is k-th about k to the power of `skew`
  times fewer, as by Zipf's law.

An entry is counted in windows, and keeps a text of `payload_bytes` that does not compress until its window
is over. Each row is hashed `cpu_rounds` times; the hashes are summed up, so that Spark cannot leave it out.
"""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame, functions as sf

DIGEST_BYTES = 64


def build(df: DataFrame, params: Mapping[str, Any]) -> DataFrame:
    """Count the rows of each entry in each `window`, given out once it is `delay` in the past."""
    return (
        df.select("event_time", "offset", entry(params).alias("entry"))
        .withColumn("checksum", burn_cpu(params.get("cpu_rounds", 10)))
        .withColumn("payload", text(params.get("payload_bytes", 256)))
        .withWatermark("event_time", params.get("delay", "10 seconds"))
        .groupBy(sf.window("event_time", params.get("window", "1 minute")), "entry")
        .agg(
            sf.count("*").alias("events"),
            sf.sum("checksum").alias("checksum"),
            sf.max("payload").alias("payload"),
        )
        .select(
            sf.col("window.start").alias("window_start"),
            sf.col("window.end").alias("window_end"),
            "entry",
            "events",
            "checksum",
            sf.length("payload").alias("payload_bytes"),
        )
    )


def entry(params: Mapping[str, Any]) -> Column:
    """The entry that a row belongs to."""
    keys, skew = params.get("keys"), params.get("skew", 0.0)
    if keys is None:
        return sf.col("offset")
    if skew == 0:
        return sf.pmod("offset", sf.lit(keys))
    return sf.least(sf.floor(_zipf(sf.col("value"), keys + 1, skew)), sf.lit(keys)) - 1


def burn_cpu(rounds: int) -> Column:
    """32 bits of the row's number, hashed so many times: what the CPU is kept busy with."""
    digest = sf.aggregate(
        sf.array_repeat(sf.lit(0), rounds),
        sf.col("offset").cast("string"),
        lambda text, _: sf.sha2(text, 256),
    )
    return sf.conv(sf.substring(digest, 1, 8), 16, 10).cast("bigint")


def text(size: int) -> Column:
    """A text of `size` bytes that follows from the entry and does not compress."""
    parts = -(-size // DIGEST_BYTES)
    whole = sf.concat(*(sf.sha2(sf.concat_ws("/", "entry", sf.lit(n)), 256) for n in range(parts)))
    return sf.substring(whole, 1, size)


def _zipf(chance: Column, end: int, skew: float) -> Column:
    """From an even chance between 0 and 1 to a number from 1 to `end`, as rare as a power of it."""
    if skew == 1:
        return sf.pow(sf.lit(float(end)), chance)
    reach = float(end) ** (1 - skew) - 1
    return sf.pow(chance * reach + 1, sf.lit(1 / (1 - skew)))
