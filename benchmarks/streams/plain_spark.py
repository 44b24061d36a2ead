"""Plain Spark under a supervisor that starts it again as soon as it has died."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from benchmarks.streams import workload
from benchmarks.streams.measurements import Condition, Failover, Meter, Steady, kill_family, wait
from benchmarks.streams.workload import State
from holdfast.resources.clock import SYSTEM_CLOCK

SCRIPT = Path(__file__).parent.parent / "plain" / "restarted_query.py"


class PlainSpark:
    """The query in a process that knows nothing of Holdfast, on its own local checkpoint."""

    def __init__(self, folder: Path, state: State) -> None:
        self.folder = folder
        self.state = state
        self._log = folder / "driver.out"
        self._process: subprocess.Popen[bytes] | None = None
        self._begun_at = 0.0
        self._over = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise, daemon=True)

    def start(self) -> None:
        """Run it, and wait until its state is full."""
        self._supervisor.start()
        self._wait(self._is_full, "full state")

    def stop(self) -> None:
        """End it for good."""
        self._over.set()
        if self._process is not None:
            kill_family(self._process.pid)
        self._supervisor.join()

    def settle(self, number: int) -> None:
        """Let it run for a while, to the same phase for each contender."""
        goal = self._commit_file(self._batch() + workload.SETTLE_EPOCHS)
        self._wait(goal.exists, f"batch {goal.parent.name}")
        time.sleep(workload.PHASES[number % len(workload.PHASES)])

    def kill(self) -> Failover:
        """Kill -9 the driver, and time the next batch."""
        batch, killed_at = self._batch(), SYSTEM_CLOCK.now()
        os.kill(self._driver(), signal.SIGKILL)
        self._wait(lambda: self._mark("session") > killed_at, "new Spark session")
        session = self._mark("session")
        # The old JVM may finish a batch before it sees that its driver is gone: that is no recovery.
        self._wait(lambda: self._first_after(batch, session) is not None, "batch after the kill")
        committed_at = self._first_after(batch, session) or 0.0
        begun, query = self._begun_at, min(self._mark("query"), committed_at)
        return Failover.split(
            committed_at - killed_at,
            {"detect": begun - killed_at, "deploy": session - begun, "wire": query - session},
        )

    def restart(self) -> float:
        """Stop it with SIGTERM, start it again, and return the time without a batch."""
        batch, stopped_at = self._batch(), SYSTEM_CLOCK.now()
        before = _time_of(self._commit_file(batch))  # a batch that is repeated is written again
        driver = psutil.Process(self._driver())
        for process in [*driver.children(recursive=True), driver]:  # Java first: it must not go on
            with suppress(psutil.NoSuchProcess):
                process.terminate()
        self._wait(lambda: self._mark("session") > stopped_at, "new Spark session")
        session = self._mark("session")
        self._wait(lambda: self._first_after(batch, session) is not None, "batch after the start")
        following = _time_of(self._commit_file(batch + 1))
        before = following if following <= session else before
        return (self._first_after(batch, session) or before) - before

    def measure_steady(self) -> Steady:
        """What it costs while nothing happens: all of it is local."""
        meter = Meter(self._driver())
        time.sleep(workload.QUIET_SECONDS)
        return Steady(meter.read())

    def measure_state_megabytes(self) -> float:
        """The newest complete snapshot that Spark itself keeps of each partition of the state."""
        newest: dict[Path, tuple[int, int]] = {}
        for file in self.folder.glob("checkpoint/state/*/*/*.snapshot"):
            snapshot = (int(file.stem), file.stat().st_size)
            newest[file.parent] = max(newest.get(file.parent, snapshot), snapshot)
        return sum(size for _, size in newest.values()) / 1e6

    def _supervise(self) -> None:
        while not self._over.is_set():
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(self._command(), stdout=log, stderr=log)
            self._begun_at = SYSTEM_CLOCK.now()
            self._process.wait()

    def _command(self) -> list[str]:
        options = {
            "keys": self.state.keys,
            "payload-bytes": workload.PAYLOAD_BYTES,
            "rate": workload.RATE,
            "fill-rate": workload.FILL_RATE,
            "batch-rows": workload.BATCH_ROWS,
            "seed": workload.SEED,
            "parts": workload.PARTS,
            "seconds": workload.EPOCH_SECONDS,
            "master": workload.MASTER,
            "memory": workload.MEMORY,
        }
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        settings = workload.SPARK_CONF.items()
        conf = [word for pair in settings for word in ("--conf", "=".join(pair))]
        return [sys.executable, str(SCRIPT), str(self.folder), *words, *conf]

    def _driver(self) -> int:
        assert self._process is not None
        return self._process.pid

    def _batch(self) -> int:
        done = self.folder.glob("output/*/_SUCCESS")  # many files: not to be asked often
        return max((int(file.parent.name) for file in done), default=-1)

    def _commit_file(self, batch: int) -> Path:
        return self.folder / "output" / str(batch) / "_SUCCESS"

    def _first_after(self, batch: int, moment: float) -> float | None:
        """When the first batch after this one was committed since then, if one was."""
        for number in (batch + 1, batch + 2):
            file = self._commit_file(number)
            if file.exists() and file.stat().st_mtime > moment:
                return file.stat().st_mtime
        return None

    def _is_full(self) -> bool:
        batch = self._batch()
        if batch < 0:
            return False
        lines = (self.folder / "checkpoint" / "offsets" / str(batch)).read_text().splitlines()
        return int(json.loads(lines[-1])["rows"]) >= self.state.keys

    def _mark(self, name: str) -> float:
        return (self.folder / name).stat().st_mtime

    def _wait(self, condition: Condition, what: str) -> None:
        wait(condition, what, lambda: self._log.read_text(errors="replace")[-3000:])


def _time_of(file: Path) -> float:
    return file.stat().st_mtime


@contextmanager
def plain_spark(folder: Path, state: State) -> Iterator[PlainSpark]:
    """A plain contender with a full state; nothing of it is left afterwards."""
    folder.mkdir(parents=True)
    contender = PlainSpark(folder, state)
    try:
        contender.start()
        yield contender
    finally:
        contender.stop()
