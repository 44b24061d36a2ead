"""Spark's Python workers after a task of a stream."""

import gc
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from streaming.sinks.staging import run_epoch

pytestmark = pytest.mark.integration


def test_what_a_worker_has_imported_is_left_out_of_the_collection_after_each_task(
    spark: SparkSession,
) -> None:
    def frozen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"frozen": [gc.get_freeze_count()]})

    one_task = spark.range(0, 1, 1, 1)
    assert run_epoch(one_task, None).rows == 1
    [row] = one_task.mapInArrow(frozen, "frozen long").collect()
    assert row.frozen > 10_000
