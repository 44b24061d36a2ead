"""A driver for one epoch: `python -m holdfast.streaming.query.recompute --folder FOLDER --checkpoint FOLDER --epoch N`.

The stream's own query continues from a restored checkpoint; it neither decides nor commits an epoch. The
rows and digest of the epoch, or the error, are written to a file in the driver's folder.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from holdfast.configs.declarations.sinks import DeltaSink
from holdfast.ft_policies.errors import HoldfastError, PermanentError, TransientError
from holdfast.resources import priority
from holdfast.resources.clock import wait_until
from holdfast.streaming.query.query import start_query
from holdfast.streaming.sinks.delta.sink import require_output_fits
from holdfast.streaming.sinks.staging import Staged, run_epoch
from holdfast.streaming.spark.session import end_session, start_session
from holdfast.streaming.spec import ReplicaSpec

RESULT = "recomputed.json"
LOOK_SECONDS = 0.1
NICE = 5  # it runs beside a primary, and a drill waits for it


def main(arguments: Sequence[str] | None = None) -> int:
    """Compute the epoch and write the result; exit code 1 if there is only an error."""
    parser = argparse.ArgumentParser(
        prog="python -m holdfast.streaming.query.recompute", description=__doc__
    )
    parser.add_argument("--folder", type=Path, required=True, help="the driver's own folder")
    parser.add_argument("--checkpoint", type=Path, required=True, help="a restored checkpoint")
    parser.add_argument("--epoch", type=int, required=True, help="the epoch to compute")
    parser.add_argument(
        "--patience", type=float, required=True, help="seconds to wait for the epoch"
    )
    options = parser.parse_args(arguments)
    priority.lower(NICE)
    result = _result(options)
    (options.folder / RESULT).write_text(json.dumps(result))
    return 0 if "digest" in result else 1


def _result(options: argparse.Namespace) -> dict[str, Any]:
    try:
        spec = ReplicaSpec.load(options.folder)
        staged = recompute(
            spec, options.checkpoint, options.epoch, patience_seconds=options.patience
        )
    except HoldfastError as error:
        is_permanent = isinstance(error, PermanentError)
        return {"error": str(error), "hint": error.hint, "lasts": is_permanent}
    return {"rows": staged.rows, "digest": staged.digest}


def recompute(
    spec: ReplicaSpec, checkpoint: Path, epoch: int, *, patience_seconds: float
) -> Staged:
    """Compute an epoch with the stream's own query; raises if its columns are not those of the output table."""
    computed: dict[int, Staged] = {}
    schemas: list[StructType] = []

    def sink(df: DataFrame, number: int) -> None:
        schemas.append(df.schema)
        computed[number] = run_epoch(df, None)

    spark = start_session(spec)
    try:
        query = _start(spark, spec, sink, checkpoint)
        try:
            if not wait_until(
                lambda: epoch in computed or _has_failed(query),
                patience_seconds=patience_seconds,
                poll_seconds=LOOK_SECONDS,
            ):
                raise TransientError(
                    f"epoch {epoch} was not computed in time",
                    hint="try again when the machine is less busy",
                )
        finally:
            query.stop()
    finally:
        end_session(spark)
    if isinstance(spec.stream.sink, DeltaSink):
        require_output_fits(spec, spec.stream.sink, schemas[0])
    return computed[epoch]


def _start(
    spark: SparkSession, spec: ReplicaSpec, sink: Callable[[DataFrame, int], None], checkpoint: Path
) -> StreamingQuery:
    try:
        return start_query(spark, spec, sink, checkpoint, rehearsal=True)
    except HoldfastError:
        raise
    except Exception as error:
        raise PermanentError(
            f"{spec.stream.app} failed to build a query: {type(error).__name__}: {error}",
            hint="check that params and the columns of the source have all that the application needs",
        ) from error


def _has_failed(query: StreamingQuery) -> bool:
    """Raise if the query has failed; else false."""
    failure = query.exception()
    if failure is not None:
        raise PermanentError(
            f"the query failed to continue from the snapshot: {failure}",
            hint="keep the keys and columns by which a changed application groups, joins and deduplicates, "
            "or declare a new stream, which replays from epoch 0",
        ) from failure
    return False


if __name__ == "__main__":
    sys.exit(main())
