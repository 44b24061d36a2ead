"""Spark's Python workers after a task of a stream."""

import gc
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from holdfast.streaming.sinks.staging import run_epoch

pytestmark = pytest.mark.integration


def test_what_a_worker_has_imported_is_left_out_of_the_collection_after_each_task(
    spark: SparkSession,
) -> None:
    def frozen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"frozen": [gc.get_freeze_count()]})

    assert run_epoch(spark.range(0, 1, 1, 1), None).rows == 1
    tasks = spark.range(0, 8, 1, 8)  # Spark takes its idle workers in turn
    counts = [row.frozen for row in tasks.mapInArrow(frozen, "frozen long").collect()]
    assert max(counts) > 10_000
