"""How long a stream commits nothing while it is migrated, by each protocol, against plain Spark stopped and started.

What is timed is the longest time between two committed epochs (plain Spark: batches) from the request to the end
of the migration. Each state is a run and a result of its own. Fewer `--times` keep no result.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import yaml

from benchmarks.harness import Benchmark, median, scratch_folder
from benchmarks.streams import workload
from benchmarks.streams.kills import await_condition
from benchmarks.streams.output_check import count_differing_rows
from benchmarks.streams.plain_spark import plain_spark
from benchmarks.streams.project import RUN, live_project, stop_everything
from benchmarks.streams.supervised_stream import NAME, declaration
from benchmarks.streams.workload import STATES, State
from holdfast.configs.project import ProjectConfig
from holdfast.ft_policies.playbooks.recover.migration import Protocol
from holdfast.observation.status import observe_stream
from holdfast.orchestration.playbooks.migrate import Migrate, MigrationRequest
from holdfast.orchestration.playbooks.recover import Start
from holdfast.resources.project import Project

PLAIN = "plain"
RESULT_NAMES = {"small": "migration", "large": "migration_large"}
TIMES = 3
MEMORIES = ("2100m", "2g")  # there and back
OF_PLAIN = {Protocol.INTERRUPTION_FREE: 0.15, Protocol.REPLAY: 0.3, Protocol.LEGACY: 1.2}
MOST_PACES = 1.5
NOTES = (
    f"The stream of the failover benchmark ({workload.RATE} rows per second in epochs of {workload.EPOCH_SECONDS} s on "
    f"{workload.MASTER}, about 10 MB and 200 MB of state in Spark's default store) is migrated to other driver memory and back, in "
    "passive_replication. Plain Spark has the same rows, query and checkpoint, is stopped with SIGTERM and restarted at once. "
    "Seconds are the longest time without a committed epoch, medians. At the end every row is compared with a batch "
    "recomputation."
)


@dataclass(slots=True)
class MigrationGaps:
    """The gaps of one contender with one state."""

    contender: str
    state: State
    gaps: list[float] = field(default_factory=list)


class MigratedStream:
    """A stream in a project of its own whose file is changed while it runs."""

    def __init__(self, project: Project, state: State) -> None:
        self._project = project
        self._state = state
        self._changes = 0

    def start(self) -> None:
        """Start it, and wait until its state is full."""
        for _ in Start(self._project, NAME, RUN).steps():
            pass
        await_condition(self._project, NAME, self._is_full, "full state")

    def migrate(self, protocol: Protocol) -> float:
        """Change its memory, migrate, and give the longest time without a commit."""
        self._settle()
        self._declare(MEMORIES[self._changes % len(MEMORIES)])
        self._changes += 1
        for _ in Migrate(
            self._project, NAME, RUN, request=MigrationRequest(protocol=protocol)
        ).steps():
            pass
        last = self._epoch()
        await_condition(
            self._project, NAME, lambda: self._epoch() > last, "epoch after the migration"
        )
        begun_at = self._project.store.migrations.history(NAME)[-1].begun_at
        entries = self._project.store.ledger.since(NAME, at=begun_at)
        return max(after.committed_at - before.committed_at for before, after in pairwise(entries))

    def prove(self) -> int:
        """Stop it, and compare all that it put out with a batch: how many rows differ."""
        stop_everything(self._project, NAME)
        return count_differing_rows(self._project, NAME, self._state)

    def _declare(self, memory: str) -> None:
        file = self._project.config.root / "configs" / "streams" / f"{NAME}.yaml"
        written = yaml.safe_load(file.read_text())
        written["resources"]["driver_memory"] = memory
        file.write_text(yaml.safe_dump(written))
        self._project = Project(ProjectConfig.load(self._project.config.root), self._project.store)

    def _settle(self) -> None:
        """Caught up, with a snapshot of its own, and nothing left to do."""
        goal = self._epoch() + workload.SETTLE_EPOCHS
        await_condition(self._project, NAME, lambda: self._epoch() >= goal, f"epoch {goal}")
        await_condition(
            self._project, NAME, lambda: observe_stream(self._project, NAME).is_settled, "rest"
        )

    def _epoch(self) -> int:
        last = self._project.store.ledger.last(NAME)
        return -1 if last is None else last.epoch

    def _is_full(self) -> bool:
        epoch = self._project.store.epochs.get(NAME, self._epoch())
        return epoch is not None and epoch.end["rows"] >= self._state.keys


def run(state: State, times: int, step: Callable[[str], None]) -> tuple[list[MigrationGaps], int]:
    """Plain Spark first, then one stream through all protocols; how many of its rows differ."""
    results = [MigrationGaps(PLAIN, state)]
    with scratch_folder("migration") as folder, plain_spark(folder / PLAIN, state) as plain:
        for number in range(times):
            step(f"{state.name} state: {PLAIN}, {number + 1}")
            plain.settle(number)
            results[0].gaps.append(plain.restart())
    with (
        scratch_folder("migration") as folder,
        live_project(folder / "project", declaration(state)) as project,
    ):
        stream = MigratedStream(project, state)
        stream.start()
        for protocol in Protocol:
            result = MigrationGaps(protocol.value, state)
            for number in range(times):
                step(f"{state.name} state: {protocol}, {number + 1}")
                result.gaps.append(stream.migrate(protocol))
            results.append(result)
        return results, stream.prove()


def report(benchmark: Benchmark, results: list[MigrationGaps], differing: int) -> None:
    """The lines of one state, and its bars."""
    plain, name = median(results[0].gaps), results[0].state.name
    for result in results:
        benchmark.row(
            state=name,
            contender=result.contender,
            times=len(result.gaps),
            seconds=median(result.gaps),
            worst=round(max(result.gaps), 3),
            of_plain=round(median(result.gaps) / plain, 3),
            epoch_paces=round(median(result.gaps) / workload.EPOCH_SECONDS, 2),
        )
    gaps = {result.contender: median(result.gaps) for result in results}
    for protocol, limit in OF_PLAIN.items():
        benchmark.bar(f"{name}, {protocol} / plain Spark", gaps[protocol] / plain, "<=", limit)
    paces = gaps[Protocol.INTERRUPTION_FREE] / workload.EPOCH_SECONDS
    benchmark.bar(f"{name}, {Protocol.INTERRUPTION_FREE} in epoch paces", paces, "<=", MOST_PACES)
    benchmark.bar(f"{name}, rows that differ", differing, "<=", 0)


def main() -> int:
    """Measure what is asked for; everything, if nothing is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", nargs="+", choices=list(STATES), default=list(STATES))
    parser.add_argument("--times", type=int, default=TIMES, help="of each contender")
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = str(Path(__file__).parent.parent)
    return max(_measure_state(STATES[name], options.times) for name in options.states)


def _measure_state(state: State, times: int) -> int:
    """Plain Spark and all protocols with one state."""
    benchmark = Benchmark(
        RESULT_NAMES[state.name], f"Migrating a running stream, {state.name} state", NOTES
    )
    with benchmark.progress(times * (1 + len(Protocol))) as step:
        results, differing = run(state, times, step)
    report(benchmark, results, differing)
    benchmark.console.print(json.dumps({result.contender: result.gaps for result in results}))
    return benchmark.finish() if times >= TIMES else benchmark.show()


if __name__ == "__main__":
    sys.exit(main())
