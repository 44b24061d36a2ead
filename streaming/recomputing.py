"""Computing an epoch again from a restored checkpoint, in a Spark of its own, without sending anything."""

from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from ft_policies.errors import PermanentError, TransientError
from resources.clock import SYSTEM_CLOCK
from streaming.query import start_query
from streaming.session import end_session, start_session
from streaming.sinks.staging import Staged, run_epoch
from streaming.spec import ReplicaSpec

LOOK_SECONDS = 0.1


def recompute(
    spec: ReplicaSpec, checkpoint: Path, epoch: int, *, patience_seconds: float
) -> Staged:
    """What the stream's own query makes of an epoch; it decides none, and commits none."""
    computed: dict[int, Staged] = {}

    def sink(df: DataFrame, number: int) -> None:
        computed[number] = run_epoch(df, None)

    spark = start_session(spec)
    try:
        query = start_query(spark, spec, sink, checkpoint, rehearsal=True)
        try:
            deadline = SYSTEM_CLOCK.monotonic() + patience_seconds
            while epoch not in computed:
                _demand_progress(query, epoch, deadline)
                SYSTEM_CLOCK.sleep(LOOK_SECONDS)
        finally:
            query.stop()
    finally:
        end_session(spark)
    return computed[epoch]


def _demand_progress(query: StreamingQuery, epoch: int, deadline: float) -> None:
    failure = query.exception()
    if failure is not None:
        raise PermanentError(
            f"the query does not go on from the snapshot: {failure}",
            hint="was the application, its Spark conf or Spark itself changed since the snapshot?",
        ) from failure
    if SYSTEM_CLOCK.monotonic() > deadline:
        raise TransientError(
            f"epoch {epoch} was not computed in time", hint="is the machine busy? Try again later"
        )
