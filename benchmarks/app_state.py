"""The state of every application over hours of event time: it must stop growing.

`--only taxi` measures some of them and keeps no result.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession, functions as sf

from benchmarks.harness import Benchmark
from benchmarks.plots.app_state import draw
from benchmarks.streams.app_run import app_session, checkpoint_of, generated_run
from holdfast.apps.catalogue import Query, list_queries
from holdfast.streaming.spec import ReplicaSpec

EVENTS, EPOCHS, SEED = 300_000, 12, 1
EARLIER = 2 * EPOCHS // 3
MOST_GROWTH, FEWEST_HOURS = 1.2, 1.0
DOCS = Path(__file__).parent.parent / "docs"
TIMES: Mapping[str, str] = {
    "card_fraud": "event_time",
    "click_stream": "line",
    "energy": "timestamp",
    "sentiment": "created_at",
    "sla": "event_time",
    "synthetic": "event_time",
    "taxi": "dropoff_datetime",
    "telecom": "time",
    "word_count": "at",
}
NOTES = (
    f"{EVENTS:,} generated events of each application in {EPOCHS} epochs, including late, missing, duplicate and malformed "
    "ones, on one core. The state is read after each epoch with Spark's own reader: bytes that a fold keeps, or entries of "
    "Spark's operators. `growth` is the maximum in the last third of the epochs divided by the maximum before: 1.5 for a "
    "state that grows with the events. The state need not be constant, since calls, tweets and trips vary with the hour."
)


def measure(query: Query, spark: SparkSession, root: Path) -> list[int]:
    """The state after each epoch of a run to the end."""
    with generated_run(query, root, events=EVENTS, files=EPOCHS, seed=SEED) as run:
        spec = run.replica("one")
        run.finish(run.start(spark, spec))
    curve = [_state(spark, spec, epoch) for epoch in range(EPOCHS)]
    shutil.rmtree(root / query.stream)
    return curve


def _state(spark: SparkSession, spec: ReplicaSpec, epoch: int) -> int:
    """Bytes that the folds of a query keep, or entries that Spark's own operators do; of all operators."""
    operators = (checkpoint_of(spec) / "state").glob("[0-9]*")
    return sum(_state_of(spark, spec, epoch, int(operator.name)) for operator in operators)


def _state_of(spark: SparkSession, spec: ReplicaSpec, epoch: int, operator: int) -> int:
    state = spark.read.format("statestore").option("batchId", epoch).option("operatorId", operator)
    if "RocksDB" not in str(spec.stream.resources.spark_conf):
        return state.load(str(checkpoint_of(spec))).count()
    kept = state.option("stateVarName", "kept").load(str(checkpoint_of(spec)))
    return int(kept.select(sf.sum(sf.length("value.kept"))).first()[0] or 0)  # type: ignore[index]


def hours(app: str) -> float:
    """From the first event to the last one."""
    times = import_module(f"apps.{app}.generator").records(EVENTS, SEED)[TIMES[app]].iloc[[0, -1]]
    if app == "click_stream":
        times = times.str.extract(r"\[(.+?)\]", expand=False).str.replace(":", " ", n=1)
    unit = "s" if pd.api.types.is_numeric_dtype(times) else None
    first, last = pd.to_datetime(times, unit=unit, utc=True)
    return float((last - first).total_seconds() / 3600)


def judge(benchmark: Benchmark, query: Query, curve: list[int]) -> None:
    """A line a query."""
    lasting, before = hours(query.app), max(curve[:EARLIER])
    benchmark.row(
        query=query.stream,
        hours=round(lasting, 1),
        events_per_hour=round(EVENTS / lasting),
        after_one_epoch=curve[0],
        most_before=before,
        most_at_last=max(curve[EARLIER:]),
        growth=round(max(curve[EARLIER:]) / before, 3) if before else 0.0,
    )


def main() -> int:
    """Measure one after the other, in one session."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="queries whose names begin with this")
    only = parser.parse_args().only
    chosen = [query for query in list_queries() if query.stream.startswith(only)]
    benchmark = Benchmark("app_state", "The state of the applications", NOTES)
    root = Path(tempfile.mkdtemp(prefix="bench-app-state-")).resolve()
    spark = app_session(root, cores=1)
    curves: dict[str, list[int]] = {}
    try:
        with benchmark.progress(len(chosen)) as step:
            for query in chosen:
                step(query.stream)
                curves[query.stream] = measure(query, spark, root)
                judge(benchmark, query, curves[query.stream])
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)
    growth = max(float(row["growth"]) for row in benchmark.table)
    benchmark.bar("growth of state, at most", growth, "<=", MOST_GROWTH)
    shortest = min(float(row["hours"]) for row in benchmark.table)
    benchmark.bar("hours of event time, at least", shortest, ">=", FEWEST_HOURS)
    if only:
        return benchmark.show()
    draw(curves, DOCS / "app_state.png")
    return benchmark.finish()


if __name__ == "__main__":
    sys.exit(main())
