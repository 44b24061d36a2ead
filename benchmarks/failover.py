"""How long a killed stream is away: plain Spark under a supervisor, and each of the six tiers.

A kill is `kill -9` of the driver's Python process; what is timed is the next epoch (plain Spark: batch) that
had not been committed. Each tier runs on the same stream, one after the other, so all of them have the same
state; a kill comes only when the tier is covered again. Parts of it: `--tiers plain,deployed --kills 2
--states small`; a state's result is written only if all contenders were measured with it. What was known before
each kill, and how long the recovery took, is added to `results/recoveries` for `make bench-prediction`, whatever
was measured and also if the run was cut short.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from rich.console import Console

from benchmarks.harness import Benchmark, median, scratch_folder
from benchmarks.plots.failover import draw
from benchmarks.streams import workload
from benchmarks.streams.measurements import (
    STEPS,
    ContenderResult,
    Failover,
    Steady,
    StreamProof,
    UnrecoveredError,
)
from benchmarks.streams.plain_spark import plain_spark
from benchmarks.streams.recorded import RecordedRun, record_run
from benchmarks.streams.supervised_stream import supervised_stream
from benchmarks.streams.workload import STATES, State
from holdfast.ft_policies.tiers import Tier

PLAIN = "plain"
KILLS = 10  # so one miss is within the bars of the benchmark of predictions: 99 % in all, 95 % in its tier
FEWEST_KILLS = 5  # for a result
BARS = {
    Tier.ACTIVE_REPLICATION: 0.10,
    Tier.ACTIVE_STANDBY: 0.20,
    Tier.PASSIVE_STANDBY_HOT: 0.30,
    Tier.PASSIVE_STANDBY_COLD: 0.40,
    Tier.DEPLOYED: 0.50,
    Tier.PASSIVE_REPLICATION: 1.50,
}
CHEAPEST_FIRST = tuple(reversed(Tier))
CONTENDERS = (PLAIN, *(tier.value for tier in CHEAPEST_FIRST))
WIDTH = 260
DOCS = Path(__file__).parent.parent / "docs"
RESULT_NAMES = {"small": "failover", "large": "failover_large"}
NOTES = (
    f"An aggregation by key with about 10 MB and 200 MB of state ({workload.PAYLOAD_BYTES} bytes per key; Spark's "
    f"default HDFS-backed state store), {workload.RATE} rows per second in epochs of {workload.EPOCH_SECONDS} s on "
    f"{workload.MASTER}; snapshots every {workload.CHECKPOINT_EVERY}, secondaries sync every {workload.SYNC_EVERY}. Plain "
    "Spark has the same rows, query, cores and memory, its own local checkpoint, and a supervisor that restarts it the "
    "moment it dies; only Holdfast has Holdfast's Spark defaults, class archive, collector and start of Python workers. Seconds are "
    "from kill -9 of the driver to the next committed epoch, medians; each step is a separate median, so the steps need not "
    "add up. Dagster takes part in passive_replication only (its tick and the start of the run count). Cores, memory, traffic "
    f"(snapshots and syncs) and requests are those of {workload.QUIET_SECONDS:.0f} quiet seconds before the first kill. At the end "
    "every output row of the stream is compared with a batch recomputation."
)


class Contender(Protocol):
    """What is killed."""

    def settle(self, number: int) -> None: ...
    def kill(self) -> Failover: ...
    def measure_steady(self) -> Steady: ...
    def measure_state_megabytes(self) -> float: ...


def measure(
    name: str, state: State, contender: Contender, kills: int, step: Callable[[str], None]
) -> ContenderResult:
    """Let it be quiet, then kill it again and again; what fails ends that, and what was measured before it stays."""
    result = ContenderResult(name, state)
    try:
        contender.settle(0)
        step(f"{state.name} state: {name}, quiet")
        result.steady = contender.measure_steady()
        for number in range(kills):
            step(f"{state.name} state: {name}, kill {number + 1}")
            contender.settle(number)
            result.failovers.append(contender.kill())
        result.state_megabytes = contender.measure_state_megabytes()
    except UnrecoveredError as error:
        result.failovers.append(error.failover)
        result.broken_off = error
    except Exception as error:  # noqa: BLE001 - the caller raises it once the kills are recorded
        result.broken_off = error
    return result


def run(
    state: State, wanted: Sequence[str], kills: int, step: Callable[[str], None]
) -> Iterator[ContenderResult | StreamProof]:
    """All contenders with one state: plain Spark first, then one stream through all tiers.

    At its end all that the stream put out, through all tiers and kills, is compared with a batch.
    """
    if PLAIN in wanted:
        with scratch_folder("failover") as folder, plain_spark(folder / PLAIN, state) as plain:
            result = measure(PLAIN, state, plain, kills, step)
            yield result
            if result.broken_off is not None:
                raise result.broken_off
    tiers = [tier for tier in CHEAPEST_FIRST if tier.value in wanted]
    if not tiers:
        return
    with scratch_folder("failover") as folder, supervised_stream(folder, state) as stream:
        for tier in tiers:
            stream.hold(tier)
            result = measure(tier.value, state, stream, kills, step)
            result.steps = stream.steps()
            yield result
            if result.broken_off is not None:
                raise result.broken_off
        yield StreamProof(state, stream.prove())


def build_row(result: ContenderResult, plain: float | None) -> dict[str, str | int | float]:
    """A line of the table."""
    seconds = [kill.seconds for kill in result.failovers]
    steady = result.steady
    return {
        "state": result.state.name,
        "contender": result.contender,
        "state_mb": round(result.state_megabytes, 1),
        "kills": len(seconds),
        "seconds": median(seconds),
        "worst": round(max(seconds), 3),
        "of_plain": "" if plain is None else round(median(seconds) / plain, 3),
        **{step: median([kill.steps[step] for kill in result.failovers]) for step in STEPS},
        "cores": round(steady.primary.cores, 2),
        "secondary_cores": round(steady.secondary.cores, 2),
        "rss_mb": round(steady.primary.rss_megabytes),
        "secondary_rss_mb": round(steady.secondary.rss_megabytes),
        "kb_per_s": round(steady.kilobytes_per_second, 1),
        "requests_per_h": round(steady.requests_per_hour),
    }


def report(benchmark: Benchmark, results: list[ContenderResult], proofs: list[StreamProof]) -> None:
    """The table, the bars at the small state, and the proofs."""
    plain = {
        result.state.name: median([kill.seconds for kill in result.failovers])
        for result in results
        if result.contender == PLAIN
    }
    for result in results:
        benchmark.row(**build_row(result, plain.get(result.state.name)))
    for tier, limit in BARS.items():
        for result in results:
            if result.contender == tier and result.state.name == "small" and "small" in plain:
                away = median([kill.seconds for kill in result.failovers])
                benchmark.bar(
                    f"{tier}, seconds / plain Spark's", away / plain["small"], "<=", limit
                )
    for proof in proofs:
        benchmark.bar(f"{proof.state.name} state, rows that differ", proof.differing, "<=", 0)


def main() -> int:
    """Measure what is asked for; everything, if nothing is."""
    options = _parse_arguments()
    os.environ["PYTHONPATH"] = str(Path(__file__).parent.parent)
    console = Console()
    console.width = max(console.width, WIDTH)
    return max(_measure_state(STATES[name], options, console) for name in options.states)


def _measure_state(state: State, options: argparse.Namespace, console: Console) -> int:
    """All contenders with one state: a run, and a result, of its own."""
    title = f"From the kill to the next epoch, {state.name} state"
    benchmark = Benchmark(RESULT_NAMES[state.name], title, NOTES, console)
    results: list[ContenderResult] = []
    proofs: list[StreamProof] = []
    with benchmark.progress(len(options.tiers) * (options.kills + 1)) as step:
        try:
            for result in run(state, options.tiers, options.kills, step):
                console.print(_format_result(result))
                if isinstance(result, StreamProof):
                    proofs.append(result)
                elif result.failovers:
                    results.append(result)
                    record_run(RecordedRun.of(state.name, results))
        except Exception:  # noqa: BLE001 - what was measured before is worth showing
            console.print_exception()
    report(benchmark, results, proofs)
    measured = (
        {result.contender for result in results}
        if proofs and options.kills >= FEWEST_KILLS
        else set()
    )
    if measured < set(CONTENDERS):
        console.print("not everything was measured: no result is written")
        return max(benchmark.show(), 1)
    draw(benchmark.table, DOCS / f"{benchmark.name}.png")
    return benchmark.finish()


def _format_result(result: ContenderResult | StreamProof) -> str:
    if isinstance(result, StreamProof):
        return f"{result.state.name} state: {result.differing} rows differ from a batch"
    seconds = " ".join(f"{kill.seconds:.2f}" for kill in result.failovers)
    return f"{result.state.name} state, {result.contender}: {seconds}"


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiers", type=_names(CONTENDERS), default=list(CONTENDERS))
    parser.add_argument("--states", type=_names(tuple(STATES)), default=list(STATES))
    parser.add_argument("--kills", type=int, default=KILLS, help="of each contender")
    return parser.parse_args()


def _names(choices: tuple[str, ...]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        unknown = set(text.split(",")) - set(choices)
        if unknown:
            raise argparse.ArgumentTypeError(f"{unknown} is none of {', '.join(choices)}")
        return [name for name in choices if name in text.split(",")]

    return parse


if __name__ == "__main__":
    sys.exit(main())
