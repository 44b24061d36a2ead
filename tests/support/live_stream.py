"""A real stream in a project of its own: real driver, real object store, real control store."""

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from apps.word_count.oracle import expected
from ft_policies.recovery import Step
from orchestration.playbooks.performing import Performed
from orchestration.playbooks.recover import Recovery, start
from orchestration.playbooks.stop import stop
from orchestration.proof import Proof, prove
from resources.control.records import ReplicaRow
from resources.launcher import Launched
from streaming.observing import StreamSeen, observe
from streaming.world import World, open_world

REPO = Path(__file__).parents[2]
NAME = "words"
DECLARATION: dict[str, Any] = {
    "name": NAME,
    "app": "tests.support.faults:build",
    "params": {"window": "2 seconds", "delay": "1 second"},
    "source": {
        "kind": "rate",
        "seed": 3,
        "keys": 100,
        "profile": {"kind": "constant", "rows_per_second": 2000},
    },
    "epoch": {"seconds": 0.4, "silence": 2},
    "checkpoint": {"epochs": 4},
    "objective": {"recovery_time": "60s"},
    "supervision": {"heartbeat": "250ms", "lease": "2s", "stuck_after": "60s"},
    "resources": {
        "driver_memory": "1g",
        "master": "local[1]",
        "spark_conf": {
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        },
    },
}


class LiveStream:
    """One word-count stream and what a test does to it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.root = world.project.root
        self._ever_started: list[Launched] = []

    def start(self) -> None:
        list(start(self.world, NAME, "test"))
        self._note()

    def recover(self) -> list[Performed[Step]]:
        steps = list(Recovery(world=self.world, stream=NAME, run="test").steps())
        self._note()
        return steps

    def stop(self) -> None:
        list(stop(self.world, NAME, "test"))

    def look(self) -> StreamSeen:
        return observe(self.world, NAME)

    def primary(self) -> ReplicaRow:
        row = self.look().primary
        assert row is not None
        return row

    def epoch(self) -> int:
        last = self.world.store.ledger.last(NAME)
        return -1 if last is None else last.epoch

    def signal(self, number: signal.Signals) -> ReplicaRow:
        """Send a signal to the driver's Python process, as an out-of-memory killer would."""
        row = self.primary()
        assert row.pid is not None
        os.kill(row.pid, number)
        return row

    def await_epoch(self, epoch: int, seconds: float = 60.0) -> None:
        self.wait(lambda: self.epoch() >= epoch, f"epoch {epoch}", seconds)

    def await_failure(self, seconds: float = 60.0) -> None:
        self.wait(lambda: self.look().verdict.health.failed, "a failure", seconds)

    def wait(self, condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"no {what} in {seconds} s: {self.story()}"
            time.sleep(0.05)

    def prove(self) -> Proof:
        return prove(self.world, NAME, expected)

    def story(self) -> str:
        """What a person needs to see when a test has failed."""
        logs = sorted(self.world.project.home.glob("replicas/*/replica.log"))
        tails = [f"{log}:\n{log.read_text()[-3000:]}" for log in logs[-2:]]
        return "\n".join([str(self.look()), *tails])

    def close(self) -> None:
        """Leave nothing running."""
        for process in self._ever_started:
            process.kill()
        embedded = self.world.embedded_s3()
        if embedded is not None:
            embedded.stop()

    def _note(self) -> None:
        for row in self.world.store.replicas.of(NAME, live=False):
            if row.pid is not None and row.pid_started_at is not None:
                self._ever_started.append(Launched(row.pid, row.pid_started_at))


@contextmanager
def a_live_stream(root: Path, **changes: Any) -> Iterator[LiveStream]:
    """A project with one declared stream, not yet started."""
    streams = root / "configs" / "streams"
    streams.mkdir(parents=True)
    shutil.copytree(REPO / "configs" / "prices", root / "configs" / "prices")
    (streams / f"{NAME}.yaml").write_text(yaml.safe_dump({**DECLARATION, **changes}))
    with open_world(root) as world:
        stream = LiveStream(world)
        try:
            yield stream
        finally:
            stream._note()
            stream.close()
