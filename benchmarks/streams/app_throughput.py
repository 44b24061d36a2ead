"""Measures all queries in one Spark session with so many cores; a process of `apps.py`'s own.

Prints one line of JSON a query.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.streams.app_run import AppRun, app_session, checkpoint_of, generated_run
from holdfast.apps.catalogue import Query, list_queries
from holdfast.resources.vault.checkpoint.files import cut
from holdfast.streaming.spark.checkpoint import last_committed
from holdfast.streaming.spec import ReplicaSpec

WARM_UP_EPOCHS = 1
SEED = 1


def measure(
    query: Query, spark: SparkSession, root: Path, events: int, epochs: int, *, prove: bool
) -> dict[str, Any]:
    """Run it to the end: events a second after the warm-up and, to `prove` it, what the oracle says."""
    with generated_run(query, root, events=events, files=epochs, seed=SEED) as run:
        spec = run.replica("one")
        run.finish(run.start(spark, spec))
        paced = {"query": query.stream, "events_per_second": _measure_pace(run)}
        return {**paced, **_prove_output(run, spec)} if prove else paced


def _prove_output(run: AppRun, spec: ReplicaSpec) -> dict[str, Any]:
    proof, aside, checkpoint = run.prove(), run.dead_letters(), checkpoint_of(spec)
    files = cut(checkpoint, last_committed(checkpoint) or 0)
    return {
        "state_bytes": sum(file.size_bytes for file in files),
        "rows_in": proof.rows_in,
        "rows_out": proof.rows_out,
        "faults": proof.faults(),
        "dead_letters": len(aside),
        "dead_letters_differ": len(aside ^ run.read_rejected_lines()),
    }


def _last(run: AppRun) -> int:
    entry = run.project.store.ledger.last(run.query.stream)
    assert entry is not None
    return entry.epoch


def _measure_pace(run: AppRun) -> float:
    """Rows between two commits over the time between them; epochs without input do not count."""
    store, stream = run.project.store, run.query.stream
    epochs = [
        epoch for epoch in store.epochs.between(stream, 0, _last(run)) if epoch.input["files"]
    ]
    measured = epochs[WARM_UP_EPOCHS:]
    at = [
        store.ledger.get(stream, epoch.epoch) for epoch in (epochs[WARM_UP_EPOCHS - 1], epochs[-1])
    ]
    assert at[0] is not None
    assert at[1] is not None
    return sum(epoch.rows for epoch in measured) / (at[1].committed_at - at[0].committed_at)


def main() -> int:
    """Measure those that are asked for, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--events", type=int, default=300_000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--prove", action="store_true", help="hold it against the oracle, too")
    parser.add_argument("--only", default="", help="names that begin with this")
    options = parser.parse_args()
    spark = app_session(options.folder, options.cores)
    for query in list_queries():
        if query.stream.startswith(options.only):
            result = measure(
                query, spark, options.folder, options.events, options.epochs, prove=options.prove
            )
            print(json.dumps(result), flush=True)
            shutil.rmtree(options.folder / query.stream, ignore_errors=True)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
