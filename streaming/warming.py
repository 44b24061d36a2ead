"""Warming up: a new primary has Spark run something small while its query is being started.

A new driver comes to its first epoch through one thing after the other: classes are loaded, plans are made,
code is generated, Python processes are started. Part of that can happen on another core meanwhile. A secondary
has its rehearsal instead, and leaves that core to the primary.
"""

import logging

from pyspark.sql import SparkSession

from resources.clock import SYSTEM_CLOCK
from streaming.sinks.staging import run_epoch

log = logging.getLogger(__name__)


def warm_up(spark: SparkSession) -> bool:
    """Aggregate, digest and collect a row, as an epoch is; whether it came to its end.

    Nothing depends on it but speed.
    """
    began = SYSTEM_CLOCK.monotonic()
    try:
        own = spark.newSession()
        own.conf.set("spark.sql.adaptive.enabled", "false")  # as in a streaming query
        run_epoch(own.range(1).groupBy("id").count(), staging=None)
    except Exception as error:  # noqa: BLE001 - what is wrong with Spark, the query will tell
        log.info("no warm-up: %s", error)
        return False
    log.info("warm after %.2f s", SYSTEM_CLOCK.monotonic() - began)
    return True
