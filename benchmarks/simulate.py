"""How fast the simulator is: 1,000 streams over a week at ticks of 5 s, and how it grows with the streams.

All of it on one core. `--days 0.1` is a short look that keeps no result.
"""

import argparse
import os
import resource
import sys
import time

from benchmarks.harness import Benchmark
from holdfast.configs.project import ProjectConfig
from holdfast.ft_policies.simulator.engine import Scenario, simulate
from holdfast.ft_policies.simulator.presets import MEASURED
from holdfast.ft_policies.simulator.traces import DAY_SECONDS, Generated, Shape

STREAMS, DAYS, SECONDS = 1_000, 7.0, 60.0
OBJECTIVE_SECONDS, FAILURES_PER_DAY = 15.0, 1.0
# Streams, shape, and which share of the days: so that no line takes much longer than the one with the bar.
LINES = (
    (1, Shape.DIURNAL, 0.25),
    (10, Shape.DIURNAL, 0.25),
    (100, Shape.DIURNAL, 0.25),
    (STREAMS, Shape.DIURNAL, 1.0),
    (STREAMS, Shape.SPIKES, 0.25),
    (STREAMS, Shape.ERRATIC, 0.25),
    (10_000, Shape.DIURNAL, 0.05),
)
NOTES = (
    "Preset `measured`, ranked by the price list on_demand, an objective of "
    f"{OBJECTIVE_SECONDS:g} s, one failure per day and stream; ticks of {MEASURED.tick_seconds:g} s. One process "
    "on one core. Rows with fewer days take the same time per tick."
)


def scenario(streams: int, shape: Shape, days: float) -> Scenario:
    """A fleet under a generated load."""
    prices = ProjectConfig.load(ProjectConfig.find_root()).prices["on_demand"].prices()
    return Scenario(
        system=MEASURED,
        trace=Generated(
            shape=shape,
            rows_per_second=MEASURED.usual_rows_per_second,
            state=MEASURED.state,
            streams=streams,
            seed=7,
        ),
        seconds=days * DAY_SECONDS,
        objectives=(OBJECTIVE_SECONDS,),
        rank_by=prices,
        failures_per_day=FAILURES_PER_DAY,
        seed=7,
    )


def main() -> int:
    """Measure each line once: the longest takes a minute, which is more than any noise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=float, default=DAYS)
    days = parser.parse_args().days
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    benchmark = Benchmark("simulate", "Speed of the simulator", notes=NOTES)
    week = 0.0
    with benchmark.progress(len(LINES)) as step:
        for streams, shape, share in LINES:
            step(f"{streams:,} streams, {shape}")
            asked = scenario(streams, shape, days * share)
            began = time.perf_counter()
            (outcome,) = simulate(asked)
            seconds = time.perf_counter() - began
            if share == 1.0:
                week = seconds
            benchmark.row(
                streams=streams,
                load=shape.value,
                days=round(days * share, 3),
                ticks=asked.ticks,
                seconds=round(seconds, 2),
                microseconds_per_tick=round(1e6 * seconds / asked.ticks),
                nanoseconds_per_tick_and_stream=round(1e9 * seconds / asked.ticks / streams),
                misses=f"{outcome.misses} of {outcome.failures}",
            )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    benchmark.bar(f"seconds for {STREAMS:,} streams over {days:g} days", week, "<=", SECONDS)
    benchmark.bar("megabytes of memory at most, all lines", peak, "<=", 1_000)
    return benchmark.finish() if days == DAYS else benchmark.show()


if __name__ == "__main__":
    sys.exit(main())
