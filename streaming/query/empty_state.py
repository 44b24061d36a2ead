"""A checkpoint with empty state after an epoch, for a stream whose state is lost for good.

Spark makes it: the stream's own plan runs one batch without rows, so that each operator writes its empty state. Then the
batch is given the number of the epoch.
"""

import logging
import shutil
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from holdfast.ft_policies.errors import TransientError
from holdfast.resources.clock import wait_until
from holdfast.streaming.query.query import start_query
from holdfast.streaming.sinks.staging import run_epoch
from holdfast.streaming.spark.checkpoint import last_committed, renumber
from holdfast.streaming.spec import ReplicaSpec

LOOK_SECONDS = 0.05
CHANGELOGS = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"

log = logging.getLogger(__name__)


def make_empty_checkpoint(
    spark: SparkSession, spec: ReplicaSpec, checkpoint: Path, *, after_epoch: int
) -> None:
    """Let the checkpoint continue after an epoch with empty state; it is complete or not there."""
    scratch = checkpoint.with_name(f"{checkpoint.name}-empty")
    shutil.rmtree(scratch, ignore_errors=True)
    changelogs = spark.conf.get(CHANGELOGS, "false") or "false"
    spark.conf.set(CHANGELOGS, "false")  # a change alone is no state
    try:
        _run_empty_batch(spark, spec, scratch, after_epoch)
    finally:
        spark.conf.set(CHANGELOGS, changelogs)
    renumber(scratch, after_epoch)
    shutil.rmtree(checkpoint, ignore_errors=True)
    scratch.rename(checkpoint)
    log.warning("the state is lost: continuing with empty state after epoch %s", after_epoch)


def _run_empty_batch(
    spark: SparkSession, spec: ReplicaSpec, scratch: Path, after_epoch: int
) -> None:
    def sink(df: DataFrame, _: int) -> None:
        run_epoch(df, staging=None)

    query = start_query(spark, spec, sink, scratch, empty_after=after_epoch)
    try:
        wait_until(
            lambda: last_committed(scratch) is not None or not query.isActive,
            patience_seconds=spec.stream.supervision.start_within,
            poll_seconds=LOOK_SECONDS,
        )
        if last_committed(scratch) is None:
            raise TransientError(
                f"no empty state was made: {query.exception() or 'it took too long'}",
                hint="wait: it is tried again; the log has the whole error",
            )
    finally:
        query.stop()
