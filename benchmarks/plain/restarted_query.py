"""The failover benchmark's contender: plain PySpark on its own local checkpoint, nothing of Holdfast.

`python benchmarks/plain/restarted_query.py FOLDER …` runs until it is killed; started again, it goes on
where it was. A batch is committed when Spark has written FOLDER/output/N/_SUCCESS. When it came how far is
the time of the files FOLDER/session and FOLDER/query.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
from keyed_state import build
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType
from spark_query import COLUMNS, Range, rows

NUMBERS = ("keys", "payload-bytes", "rate", "fill-rate", "batch-rows", "seed", "parts")


class SteppedRate(DataSource):
    """A Python data source with the same rows and the same rate as the supervised stream's."""

    @classmethod
    def name(cls) -> str:
        return "stepped_rate"

    def schema(self) -> str:
        return COLUMNS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return SteppedReader({key: int(value) for key, value in self.options.items()})


class SteppedReader(DataSourceStreamReader):
    """Offsets are numbers of rows, and when row 0 was."""

    def __init__(self, options: dict[str, int]) -> None:
        self.options = options

    def initialOffset(self) -> dict[str, float]:  # noqa: N802
        return {"rows": 0, "origin": time.time()}  # noqa: TID251

    def latestOffset(self, start: dict[str, float], limit: ReadLimit) -> dict[str, float]:  # noqa: N802
        given, age = self.options, time.time() - start["origin"]  # noqa: TID251
        filling = given["keys"] / given["fill_rate"]
        produced = given["fill_rate"] * min(age, filling) + given["rate"] * max(age - filling, 0.0)
        most = int(start["rows"]) + given["batch_rows"]
        return {**start, "rows": min(max(int(produced), int(start["rows"])), most)}

    def partitions(
        self, start: dict[str, float], end: dict[str, float]
    ) -> Sequence[InputPartition]:
        first, last = int(start["rows"]), int(end["rows"])
        parts = self.options["parts"]
        edges = [first + (last - first) * n // parts for n in range(parts + 1)]
        return [Range(low, high - low) for low, high in pairwise(edges)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        given = self.options
        return rows(partition.first, partition.count, given["seed"], given["keys"], given["rate"])


def session(given: argparse.Namespace) -> SparkSession:
    """A session with the settings that Holdfast gives its own."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = str(
        Path(__file__).parent
    )  # Spark's workers import what this imports
    builder = (
        SparkSession.builder.master(given.master)
        .config("spark.driver.memory", given.memory)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    )
    for setting in given.conf:
        key, value = setting.split("=", 1)
        builder = builder.config(key, value)
    return builder.getOrCreate()


def stream(spark: SparkSession, given: argparse.Namespace) -> DataFrame:
    """The input: the first `keys` rows at once, then a steady rate."""
    spark.dataSource.register(SteppedRate)
    reader = spark.readStream.format("stepped_rate")
    for name in ("keys", "rate", "fill_rate", "batch_rows", "seed", "parts"):
        reader = reader.option(name, getattr(given, name))
    return reader.load()


def main() -> None:
    """Run the query until it is killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    for name in NUMBERS:
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    for name in ("master", "memory"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--conf", action="append", default=[])
    given = parser.parse_args()
    spark = session(given)
    (given.folder / "session").touch()
    df = build(stream(spark, given), {"keys": given.keys, "payload_bytes": given.payload_bytes})

    def write(output: DataFrame, batch: int) -> None:
        output.write.mode("overwrite").parquet(str(given.folder / "output" / str(batch)))

    query = (
        df.writeStream.outputMode("update")
        .foreachBatch(write)
        .option("checkpointLocation", str(given.folder / "checkpoint"))
        .trigger(processingTime=f"{given.seconds} seconds")
        .start()
    )
    (given.folder / "query").touch()
    query.awaitTermination()


if __name__ == "__main__":
    main()
