"""What a month does to a stream: recovery, commit, status, memory and disk of an old stream beside a fresh one.

One stream reads a synthetic input, the other a file a second. Each is measured fresh, stopped, aged in place and
measured again. Ageing writes what each simulated hour leaves and the product would have kept, in bulk, and runs the
product's own maintenance under the simulated clock. Parts of it: `--kinds rate --days 1 --kills 2`; only a whole month of both is kept as a result.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from benchmarks.ageing.hours import (
    ALL_HOURS,
    HOURS_PER_DAY,
    INPUT_HOURS,
    MAINTAINED_HOURS,
    RECORDS_HOURS,
    age_stream,
)
from benchmarks.ageing.live import LiveStream, Measured, find_log_rates, measure_disk, running
from benchmarks.ageing.workload import KEPT_FOR, KINDS, RATE, declaration
from benchmarks.harness import Benchmark, median, scratch_folder
from benchmarks.streams.project import live_project

DAYS, KILLS = 30.0, 5
WIDTH = 200
BARS = {"recovery_s": 1.15, "commit_cpu_s": 1.2, "status_s": 1.5, "rss_mb": 1.15}
MOST_DISK_MEGABYTES = 500
NOTES = (
    f"A count by key with a small state; {RATE} rows and one epoch a second (snapshots every 10 s, passive_replication). Not "
    f"at defaults: the files stream declares kept_for {KEPT_FOR}, and `holdfast inputs --prune` runs once a day. By default no "
    "input is deleted, and so the names of all files stay: 120 bytes each, 310 MB more in the control store after a month at "
    "a file a second, beside the 2.6 million files. The old stream is the fresh one, stopped and aged in place: each "
    "simulated hour is written in bulk as the fresh stream left its own, and not what retention has deleted by the end. Of "
    f"each hour: epochs, ledger, names of input, logs at the rate of the fresh stream, Dagster's ticks while they are kept (30 "
    "days those of schedules, 14 those of sensors that did something, 1 skipped ones); once a day a loss of the primary "
    f"with its recovery, and the cost report with its run. Of the last {RECORDS_HOURS // 24} days: samples, catalogue, "
    f"Dagster's runs and events. Of the last {INPUT_HOURS} h: snapshots and input files. Of the last {ALL_HOURS} h: each "
    "epoch's own commit and files; before, an hour's rows are one file. The jobs of the schedules that compact and prune run "
    f"under the simulated clock, each hour of the last {INPUT_HOURS}, before that each {MAINTAINED_HOURS}th. recovery_s is "
    "from kill -9 to the next new epoch in the ledger (the sensor's tick and Dagster's run count), commit_cpu_s the CPU "
    "seconds of the replica per committed epoch, status_s one call of `holdfast status`, rss_mb the memory of the replica "
    "with all its processes, disk_mb all blocks of the disk, folders included, but the input and the files of the table's "
    "newest version. Medians."
)


@dataclass(frozen=True, slots=True)
class Options:
    """What is measured."""

    kinds: list[str]
    days: float
    kills: int


def measure(live: LiveStream, kills: int, age: str, step: Callable[[str], None]) -> Measured:
    """Kill the stream again and again."""
    measured = Measured()
    for number in range(kills):
        step(f"{live.stream}, {age}: kill {number + 1}")
        live.measure(measured)
    live.settle()
    return measured


def run(kind: str, options: Options, step: Callable[[str], None]) -> Iterator[tuple[str, Measured]]:
    """One stream, fresh and old."""
    with scratch_folder("age") as root, live_project(root, declaration(kind, root)) as project:
        stream = f"age_{kind}"
        with running(project, stream, root) as live:
            fresh = measure(live, options.kills, "fresh", step)
            step(f"{stream}, fresh: jobs of the schedules")
            live.run_scheduled_jobs()
        fresh.parts = measure_disk(project, stream)
        yield "fresh", fresh
        rates = find_log_rates(fresh)
        hours = round(options.days * HOURS_PER_DAY)
        age_stream(root, stream, hours=hours, step=step, log_rates=rates)
        with running(project, stream, root) as live:
            old = measure(live, options.kills, "old", step)
        old.parts = measure_disk(project, stream)
        yield "old", old


def report(benchmark: Benchmark, kind: str, ages: dict[str, Measured]) -> None:
    """The rows of a stream and its bars."""
    rows = {age: build_row(measured) for age, measured in ages.items()}
    for age, row in rows.items():
        benchmark.row(stream=kind, age=age, **row)
    for name, limit in BARS.items():
        ratio = float(rows["old"][name]) / float(rows["fresh"][name])
        benchmark.bar(f"{kind}: {name}, old / fresh", ratio, "<=", limit)
    disk = float(rows["old"]["disk_mb"])
    benchmark.bar(f"{kind}: disk_mb of the old stream", disk, "<=", MOST_DISK_MEGABYTES)


def build_row(measured: Measured) -> dict[str, float]:
    """A line of the table."""
    return {
        "recovery_s": median(measured.recovery_seconds),
        "commit_cpu_s": median(measured.commit_cpu_seconds),
        "status_s": median(measured.status_seconds),
        "rss_mb": median(measured.rss_megabytes),
        "disk_mb": round(sum(measured.parts.values()), 1),
        **{f"{name}_mb": round(size, 1) for name, size in measured.parts.items()},
    }


def main() -> int:
    """Measure what is asked for; a month of both streams, if nothing is."""
    options = _parse_arguments()
    os.environ["PYTHONPATH"] = str(Path(__file__).parent.parent)
    console = Console()
    console.width = max(console.width, WIDTH)
    title = f"A stream after {options.days:g} days, beside a fresh one"
    benchmark = Benchmark("age", title, NOTES, console)
    hours = round(options.days * HOURS_PER_DAY)
    steps = len(options.kinds) * (hours + 2 * options.kills + 3)
    with benchmark.progress(steps) as step:
        for kind in options.kinds:
            ages: dict[str, Measured] = {}
            for age, measured in run(kind, options, step):
                console.print(f"{kind}, {age}: {build_row(measured)}")
                ages[age] = measured
            report(benchmark, kind, ages)
    is_whole = (options.kinds, options.days) == (list(KINDS), DAYS) and options.kills >= KILLS
    if not is_whole:
        console.print("not everything was measured: no result is written")
    return benchmark.finish() if is_whole else benchmark.show()


def _parse_arguments() -> Options:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--days", type=float, default=DAYS, help="how old the old stream is")
    parser.add_argument("--kills", type=int, default=KILLS, help="at each age")
    given = parser.parse_args()
    return Options([kind for kind in KINDS if kind in given.kinds], given.days, given.kills)


if __name__ == "__main__":
    sys.exit(main())
