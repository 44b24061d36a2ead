"""The overhead benchmark's contender: plain PySpark with its own file sink, and nothing of Holdfast.

`python benchmarks/plain/spark_query.py rate|parquet FOLDER …` runs the query until it has finished a number
of batches; the times at which Spark wrote its commits stay in FOLDER/checkpoint/commits.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType
from windowed_totals import build

COLUMNS = "offset bigint, event_time timestamp, key int, value double"
START_MICROS = 1_767_225_600_000_000
CHUNK = 100_000


def rows(first: int, count: int, seed: int, keys: int, rate: int) -> Iterator[pa.RecordBatch]:
    """The same rows as Holdfast's rate source computes."""
    for low in range(first, first + count, CHUNK):
        offsets = np.arange(low, min(low + CHUNK, first + count), dtype=np.int64)
        mixed = offsets.astype(np.uint64) + np.uint64((seed * 0x9E3779B97F4A7C15) % 2**64)
        mixed += np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
        micros = START_MICROS + (offsets / rate * 1e6).astype(np.int64)
        yield pa.record_batch(
            {
                "offset": offsets,
                "event_time": pa.array(micros, pa.timestamp("us", tz="UTC")),
                "key": (mixed % np.uint64(keys)).astype(np.int32),
                "value": (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53,
            }
        )


class Range(InputPartition):
    """A range of row numbers."""

    def __init__(self, first: int, count: int) -> None:
        super().__init__(first)
        self.first = first
        self.count = count


class PlainRate(DataSource):
    """A Python data source without epochs: each batch takes the next rows."""

    @classmethod
    def name(cls) -> str:
        return "plain_rate"

    def schema(self) -> str:
        return COLUMNS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return PlainReader({key: int(value) for key, value in self.options.items()})


class PlainReader(DataSourceStreamReader):
    """Offsets are numbers of rows."""

    def __init__(self, options: dict[str, int]) -> None:
        self.options = options

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"rows": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        return {"rows": start["rows"] + self.options["batch_rows"]}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        parts = self.options["parts"]
        size = (end["rows"] - start["rows"]) // parts
        return [Range(start["rows"] + n * size, size) for n in range(parts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        given = self.options
        return rows(partition.first, partition.count, given["seed"], given["keys"], given["rate"])


def write_input(folder: Path, given: argparse.Namespace) -> None:
    """As many files a batch as there are parts, with the same rows."""
    folder.mkdir(parents=True)
    size = given.batch_rows // given.parts
    for number in range(given.batches * given.parts):
        table = pa.Table.from_batches(
            list(rows(number * size, size, given.seed, given.keys, given.rate))
        )
        path = folder / f"{number:06}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_000_000_000 + number,) * 2)


def session(given: argparse.Namespace) -> SparkSession:
    """A session with the settings that Holdfast gives its own."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    return (
        SparkSession.builder.master(given.master)
        .config("spark.driver.memory", "2g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", str(given.parts))
        .config("spark.sql.streaming.noDataMicroBatches.enabled", "false")
        .getOrCreate()
    )


def main() -> None:
    """Run the query until it has finished the wanted number of batches."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", choices=["rate", "parquet"])
    parser.add_argument("folder", type=Path)
    for name in ("batches", "batch-rows", "parts", "seed", "keys", "rate"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("window", "delay", "master"):
        parser.add_argument(f"--{name}", required=True)
    given = parser.parse_args()
    spark = session(given)
    if given.source == "rate":
        spark.dataSource.register(PlainRate)
        reader = spark.readStream.format("plain_rate")
        for name in ("batch_rows", "parts", "seed", "keys", "rate"):
            reader = reader.option(name, getattr(given, name))
        df = reader.load()
    else:
        write_input(given.folder / "input", given)
        reader = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", given.parts)
        df = reader.parquet(str(given.folder / "input"))
    query = (
        build(df, {"window": given.window, "delay": given.delay})
        .writeStream.format("parquet")
        .option("path", str(given.folder / "output"))
        .option("checkpointLocation", str(given.folder / "checkpoint"))
        .start()
    )
    last = given.folder / "checkpoint" / "commits" / str(given.batches - 1)
    while not last.exists() and query.isActive:
        time.sleep(0.1)
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main()
