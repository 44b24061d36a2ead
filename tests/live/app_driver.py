"""One driver with the queries of many applications, for tests that kill it.

`python -m tests.live.app_driver ROOT REPLICA` runs what is declared below ROOT until everything that has
arrived is out; with `--for-ever` it waits for more, with `--again` it computes once more what was committed.
"""

import argparse
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.streams.app_run import DATA, AppRun, app_run, app_session
from holdfast.apps.catalogue import list_queries
from holdfast.streaming.spec import ReplicaSpec


def main() -> int:
    """Start all queries, and look after them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("replica")
    parser.add_argument("--for-ever", action="store_true")
    parser.add_argument("--again", action="store_true")
    given = parser.parse_args()
    spark = app_session(given.root, cores=2)
    with ExitStack() as opened:
        running = []
        for query in list_queries():
            config = given.root / query.stream
            if not config.is_dir():
                continue  # not under test
            run = opened.enter_context(app_run(query, config, given.root / DATA / query.app))
            spec = ReplicaSpec.load(run.project.config.home / "replicas" / given.replica)
            started = run.start(spark, spec)
            if given.again:
                _compute_again(run, started)
            else:
                running.append((run, started))
        while given.for_ever or not all(run.is_done for run, _ in running):
            for _, started in running:
                _require_healthy(started)
            time.sleep(0.1)
        for _, started in running:
            started.stop()
    return 0


def _compute_again(run: AppRun, query: StreamingQuery) -> None:
    """Let it come as far as its stream has."""
    last = run.project.store.ledger.last(run.query.stream)
    assert last is not None
    while query.lastProgress is None or query.lastProgress["batchId"] < last.epoch:
        _require_healthy(query)
        time.sleep(0.1)
    query.stop()


def _require_healthy(query: StreamingQuery) -> None:
    if (failure := query.exception()) is not None:
        raise failure


if __name__ == "__main__":
    sys.exit(main())
