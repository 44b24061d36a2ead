"""The rehearsal: a replica runs its stream's own plan once before anything depends on it.

The first batch of a plan in a new driver takes many times longer than the second: classes are loaded,
code is generated and compiled, Python workers are started. A secondary has the time for that, so it
processes the last few epochs on a scratch checkpoint, writes their rows to a scratch folder, and
deletes both.

A primary has no time for that. It warms up instead: Spark runs something small on another core while the
query is being started. A secondary does not, and leaves that core to the primary.
"""

import logging
import shutil
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

from holdfast.ft_policies import quantities
from holdfast.resources.clock import SYSTEM_CLOCK, wait_until
from holdfast.streaming.query.query import start_query
from holdfast.streaming.sinks.staging import run_epoch
from holdfast.streaming.sinks.staging_task import Staging
from holdfast.streaming.spark.checkpoint import last_committed
from holdfast.streaming.spark.epoch_source import REHEARSED_EPOCHS
from holdfast.streaming.spec import ReplicaSpec

LOOK_SECONDS = 0.1
PATIENCE_SHARE = 0.5  # of the time that a start may take

log = logging.getLogger(__name__)


def rehearse(
    spark: SparkSession, spec: ReplicaSpec, *, decided_epochs: int, give_up: Callable[[], bool]
) -> bool:
    """Run the plan over the last decided epochs; `True` if all of them were processed.

    Nothing depends on it: a rehearsal that fails only makes a later recovery slower.
    """
    goal = min(decided_epochs, REHEARSED_EPOCHS) - 1
    if goal < 0:
        return False
    stage = spec.folder / "rehearsal"
    scratch = Staging(
        table=str(stage / "table"), subfolder="data", partition_by=(), connect=spec.connect
    )

    def sink(df: DataFrame, _: int) -> None:
        run_epoch(df, scratch)

    def is_done() -> bool:
        done = last_committed(stage / "checkpoint")
        return done is not None and done >= goal

    try:
        query = start_query(spark, spec, sink, stage / "checkpoint", rehearsal=True)
        try:
            wait_until(
                lambda: is_done() or not query.isActive or give_up(),
                patience_seconds=PATIENCE_SHARE * spec.stream.supervision.start_within,
                poll_seconds=LOOK_SECONDS,
            )
            if is_done():
                return True
            if query.isActive:
                log.info("rehearsal cut short before epoch %s", goal)
            else:
                log.warning("rehearsal failed: %s", query.exception())
        finally:
            query.stop()
    except Exception:
        log.exception("rehearsal failed: unexpected error")
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return False


def warm_up(spark: SparkSession) -> bool:
    """Aggregate, digest and collect one row, as for an epoch; `False` if Spark failed, which only costs speed."""
    began = SYSTEM_CLOCK.monotonic()
    try:
        session = spark.newSession()
        session.conf.set("spark.sql.adaptive.enabled", "false")  # as in a streaming query
        run_epoch(session.range(1).groupBy("id").count(), staging=None)
    except Exception as error:  # noqa: BLE001 - the query reports what is wrong with Spark
        log.info("warm-up failed: %s", error)
        return False
    log.info("warmed up in %s", quantities.seconds(SYSTEM_CLOCK.monotonic() - began))
    return True
