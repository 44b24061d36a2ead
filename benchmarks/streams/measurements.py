"""What the failover benchmark measures of a contender, and how it waits for a condition."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import TypeAlias

import psutil

from benchmarks.streams.forecast import PredictionInputs, Steps
from benchmarks.streams.workload import State
from holdfast.observation.recovery_history import Recovery

PATIENCE_SECONDS = 180.0
LOOK_SECONDS = 0.02
STEPS = ("detect", "dagster", "deploy", "read_snapshot", "wire", "replay", "first_epoch")
Condition: TypeAlias = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Failover:
    """One kill: seconds to the next epoch that was not committed before, and where they went."""

    seconds: float
    steps: Mapping[str, float]
    inputs: PredictionInputs | None = None
    """The inputs of a prediction before the kill."""
    recovery: Recovery | None = None
    """The recovery as the stream measured it, from the last sign of life until the first new commit."""

    @classmethod
    def split(cls, seconds: float, steps: Mapping[str, float]) -> "Failover":
        """Steps in order, none longer than what is left; the end of it is the first new epoch."""
        left, kept = seconds, {}
        for name in STEPS[:-1]:
            kept[name] = min(max(steps.get(name, 0.0), 0.0), left)
            left -= kept[name]
        return cls(seconds, {**kept, STEPS[-1]: left})


class UnrecoveredError(Exception):
    """A kill after which the stream did not commit again; its recovery counts as one that never ended."""

    def __init__(self, inputs: PredictionInputs, *, at: float) -> None:
        super().__init__("the stream did not commit again")
        never = Recovery(seconds=inf, detect_seconds=0.0, at=at)
        self.failover = replace(Failover.split(inf, {}), inputs=inputs, recovery=never)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process and all that it started take."""

    cores: float = 0.0
    rss_megabytes: float = 0.0


@dataclass(frozen=True, slots=True)
class Steady:
    """What a contender costs while nothing happens."""

    primary: Usage
    secondary: Usage = Usage()
    kilobytes_per_second: float = 0.0
    requests_per_hour: float = 0.0


@dataclass(slots=True)
class ContenderResult:
    """All that was measured of one contender with one state."""

    contender: str
    state: State
    state_megabytes: float = 0.0
    steady: Steady = field(default_factory=lambda: Steady(Usage()))
    failovers: list[Failover] = field(default_factory=list)
    steps: Steps = field(default_factory=dict)
    """Everything that the stream had measured at the end; empty for plain Spark."""
    broken_off: Exception | None = None
    """Why there are fewer kills than wanted."""


@dataclass(frozen=True, slots=True)
class StreamProof:
    """What is left of a stream: how many rows of all it put out differ from a batch's."""

    state: State
    differing: int


def wait(condition: Condition, what: str, story: Callable[[], str]) -> None:
    """Wait for a condition; `TimeoutError` with the output of `story` if it does not come true."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {what} in {PATIENCE_SECONDS:.0f} s: {story()}")
        time.sleep(LOOK_SECONDS)


class Meter:
    """CPU and memory of a process with all its descendants, from its making until it is read."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._began = time.monotonic()
        self._before = self._cpu_seconds()

    def read(self) -> Usage:
        """Cores used since the beginning, and memory now."""
        spent = {
            pid: seconds - self._before.get(pid, 0.0)
            for pid, seconds in self._cpu_seconds().items()
        }
        elapsed = time.monotonic() - self._began
        rss = sum(self._of_each(lambda process: float(process.memory_info().rss)).values())
        return Usage(max(sum(spent.values()), 0.0) / elapsed, rss / 2**20)

    def _cpu_seconds(self) -> dict[int, float]:
        return self._of_each(lambda process: sum(process.cpu_times()[:2]))

    def _of_each(self, value: Callable[[psutil.Process], float]) -> dict[int, float]:
        values = {}
        for process in (self._process, *self._process.children(recursive=True)):
            try:
                values[process.pid] = value(process)
            except psutil.NoSuchProcess:
                continue
        return values


def kill_family(pid: int) -> None:
    """End a process that this benchmark started, and what it started."""
    try:
        root = psutil.Process(pid)
        family = [*root.children(recursive=True), root]
    except psutil.NoSuchProcess:
        return
    for process in family:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(family, timeout=10)
