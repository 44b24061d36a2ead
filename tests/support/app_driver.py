"""One driver with the queries of many applications, for tests that kill it.

`python -m tests.support.app_driver ROOT REPLICA` runs what is declared below ROOT until everything that has
arrived is out; with `--for-ever` it waits for more, with `--again` it computes once more what was committed.
"""

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from pyspark.sql.streaming.query import StreamingQuery

from apps.catalogue import queries
from benchmarks.app_run import AppRun, app_run, app_session
from streaming.spec import ReplicaSpec

DATA = "data"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("replica")
    parser.add_argument("--for-ever", action="store_true")
    parser.add_argument("--again", action="store_true")
    given = parser.parse_args()
    spark = app_session(cores=2)
    with ExitStack() as opened:
        running = []
        for query in queries():
            project, folder = given.root / query.stream, given.root / DATA / query.app
            if not project.exists():
                continue
            run = opened.enter_context(app_run(query, project, folder))
            spec = ReplicaSpec.load(run.world.project.home / "replicas" / given.replica)
            running.append((run, run.start(spark, spec)))
        is_done = _again(running) if given.again else lambda: all(run.is_done for run, _ in running)
        while given.for_ever or not is_done():
            for _, query in running:
                if (failure := query.exception()) is not None:
                    raise failure
            time.sleep(0.2)
        for _, query in running:
            query.stop()
    return 0


def _again(running: list[tuple[AppRun, StreamingQuery]]) -> Callable[[], bool]:
    """Whether each query has come as far as its stream had when it began."""
    last = [run.world.store.ledger.last(run.query.stream) for run, _ in running]
    goals = [-1 if entry is None else entry.epoch for entry in last]

    def is_done() -> bool:
        told = [query.lastProgress for _, query in running]
        return all(
            one is not None and one["batchId"] >= goal
            for one, goal in zip(told, goals, strict=True)
        )

    return is_done


if __name__ == "__main__":
    sys.exit(main())
