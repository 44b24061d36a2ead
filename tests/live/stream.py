"""A real stream in a project of its own: real driver, real object store, real control store."""

import json
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import psutil

from holdfast.apps.keyed_fold import ROCKSDB
from holdfast.apps.word_count.oracle import expected
from holdfast.configs.project import ProjectConfig
from holdfast.ft_policies.playbooks.recover.steps import RecoverStep
from holdfast.ft_policies.tiers import Tier
from holdfast.observation.proof import Proof, prove
from holdfast.observation.status import StreamStatus, observe_stream
from holdfast.observation.tables import open_table
from holdfast.orchestration.playbooks.base import StepDone
from holdfast.orchestration.playbooks.lifecycle import Stop, SwitchTier
from holdfast.orchestration.playbooks.migrate import Migrate, MigrationRequest
from holdfast.orchestration.playbooks.recover import Recover, Start
from holdfast.orchestration.playbooks.repair.repair import Repair
from holdfast.resources.control_store.records import Phase, ReplicaRow
from holdfast.resources.process import ProcessHandle
from holdfast.resources.project import Project, open_project
from holdfast.streaming.spark.checkpoint import PROVIDER
from tests.waiting import wait_until

REPO = Path(__file__).parents[2]
Sample = TypeVar("Sample")
NAME = "words"
POLL_SECONDS = 0.1  # a look takes a dozen queries, and CPU that the stream under test needs
DECLARATION: dict[str, Any] = {
    "name": NAME,
    "app": "tests.live.faults:build",
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
    "tier": "passive_replication",
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
ON_ROCKSDB: dict[str, Any] = {
    **DECLARATION["resources"],
    "spark_conf": {**DECLARATION["resources"]["spark_conf"], PROVIDER: ROCKSDB},
}
# What a stream needs in which two drivers, and often a third that starts, share two cores.
TIERED: dict[str, Any] = {
    "epoch": {"seconds": 1.0, "silence": 3},
    "secondary": {"sync": "2s"},
    "supervision": {"heartbeat": "500ms", "lease": "3s", "stuck_after": "60s"},
}


class LiveStream:
    """One word-count stream and what a test does to it."""

    def __init__(self, project: Project, name: str = NAME) -> None:
        self.project = project
        self.name = name
        self.root = project.config.root
        self._ever_started: list[ProcessHandle] = []

    def start(self) -> None:
        list(Start(self.project, self.name, "test").steps())
        self._note()

    def recover(self) -> list[StepDone[RecoverStep]]:
        steps = list(Recover(project=self.project, stream=self.name, run="test").steps())
        self._note()
        return steps

    def switch(self, tier: Tier) -> list[StepDone[RecoverStep]]:
        steps = list(SwitchTier(self.project, self.name, "test", tier=tier, why="a test").steps())
        self._note()
        return steps

    def repair(self) -> list[str]:
        """Run the best repair for the doctor's findings; the names of its steps."""
        repairing = Repair(project=self.project, stream=self.name, run="test", chosen=None)
        steps = [performed.name for performed in repairing.steps()]
        self._note()
        return steps

    def migrate(self, request: MigrationRequest) -> Iterator[StepDone[RecoverStep]]:
        for performed in Migrate(self.project, self.name, "test", request=request).steps():
            self._note()
            yield performed

    def declare(self, **changes: Any) -> None:
        """Change the stream's file, as an operator does while it runs."""
        file = self.root / "configs" / "streams" / f"{self.name}.yaml"
        file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
        self.project = Project(ProjectConfig.load(self.root), self.project.store)

    def stop(self) -> None:
        list(Stop(self.project, self.name, "test").steps())

    def look(self) -> StreamStatus:
        return observe_stream(self.project, self.name)

    def primary(self) -> ReplicaRow:
        row = self.look().primary
        assert row is not None
        return row

    def secondary(self) -> ReplicaRow:
        row = self.look().secondary
        assert row is not None
        return row

    def epoch(self) -> int:
        last = self.project.store.ledger.last(self.name)
        return -1 if last is None else last.epoch

    def hit(self, row: ReplicaRow, number: signal.Signals = signal.SIGKILL) -> ReplicaRow:
        """Send a signal to the Python process of one replica."""
        self._note()
        assert row.pid is not None
        os.kill(row.pid, number)
        return row

    def signal(self, number: signal.Signals) -> ReplicaRow:
        """Send a signal to the driver's Python process, as an out-of-memory killer would."""
        return self.hit(self.primary(), number)

    def kill_both(self) -> tuple[ReplicaRow, ReplicaRow]:
        """No replica is left to take over."""
        primary, secondary = self.primary(), self.secondary()
        return self.hit(primary), self.hit(secondary)

    @contextmanager
    def upon(self, step: str, act: Callable[[], object]) -> Iterator[None]:
        """Do something while a playbook is in the middle of the next step of this name."""
        before = max(
            (line.id for line in self.project.store.journal.of(self.name, limit=1)), default=0
        )
        leave = threading.Event()

        def wait_and_act() -> None:
            while not leave.wait(0.02):
                lines = self.project.store.journal.of(self.name, limit=20)
                begun = [line for line in lines if line.id > before and line.step == step]
                if any(line.phase is Phase.INTENT for line in begun):
                    act()
                    return

        actor = threading.Thread(target=wait_and_act, daemon=True)
        actor.start()
        try:
            yield
        finally:
            leave.set()
            actor.join()

    @contextmanager
    def sampled(self, look: Callable[[], Sample]) -> Iterator[list[Sample]]:
        """What `look` returns, again and again, while the block runs."""
        leave, samples = threading.Event(), [look()]

        def sample() -> None:
            while not leave.wait(0.05):
                samples.append(look())

        sampler = threading.Thread(target=sample, daemon=True)
        sampler.start()
        try:
            yield samples
        finally:
            leave.set()
            sampler.join()

    def await_epoch(self, epoch: int, seconds: float = 60.0) -> None:
        self.wait(lambda: self.epoch() >= epoch, f"epoch {epoch}", seconds)

    def await_failure(self, seconds: float = 60.0) -> None:
        self.wait(lambda: self.look().verdict.health.failed, "a failure", seconds)

    def await_tier(self, tier: Tier, seconds: float = 120.0) -> None:
        """Wait until the stream is well and its secondary is what the tier wants."""
        self.wait(lambda: self.holds(tier), f"stream in {tier}", seconds)

    def holds(self, tier: Tier) -> bool:
        status = self.look()
        healthy = status.verdict.health == "healthy" and status.is_settled
        return healthy and status.tier is tier

    def await_takeover(self, by: ReplicaRow, seconds: float = 60.0) -> None:
        """Wait until a secondary is the primary and has committed; no playbook helps it."""
        since = self.epoch()

        def took_over() -> bool:
            primary = self.look().primary
            return primary is not None and primary.id == by.id and self.epoch() > since

        self.wait(took_over, f"takeover by {by.id}", seconds)

    def wait(self, condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
        wait_until(
            condition,
            within_seconds=seconds,
            every_seconds=POLL_SECONDS,
            story=lambda: f"no {what}: {self.story()}",
        )

    def prove(self) -> Proof:
        return prove(self.project, self.name, expected)

    def story(self) -> str:
        """The status and the ends of the logs, for a failed test."""
        logs = self.project.config.home.glob("replicas/*/replica.log")
        tails = [f"{log}:\n{log.read_text()[-3000:]}" for log in sorted(logs, key=_age)[-3:]]
        return "\n".join([str(self.look()), *tails])

    def close(self) -> None:
        """Leave nothing running."""
        for process in self._ever_started:
            process.kill()
        embedded = self.project.embedded_s3()
        if embedded is not None:
            embedded.stop()
        for left in self.left():  # the JVM of a driver that was killed ends a moment later
            left.kill()

    def left(self) -> list[psutil.Process]:
        """The processes of this stream's replicas that still run; they work in its folder."""
        processes = []
        for process in psutil.process_iter():
            try:
                if process.cwd() == str(self.root) and process.status() != psutil.STATUS_ZOMBIE:
                    processes.append(process)
            except (psutil.Error, OSError):
                continue
        return processes

    def _note(self) -> None:
        for row in self.project.store.replicas.of(self.name, live=False):
            if row.pid is not None and row.pid_started_at is not None:
                self._ever_started.append(ProcessHandle(row.pid, row.pid_started_at))


def _age(log: Path) -> float:
    return log.stat().st_mtime


@contextmanager
def a_live_stream(root: Path, **changes: Any) -> Iterator[LiveStream]:
    """A project with one declared stream, not yet started."""
    streams = root / "configs" / "streams"
    streams.mkdir(parents=True)
    shutil.copytree(REPO / "configs" / "price_lists", root / "configs" / "prices")
    (streams / f"{NAME}.yaml").write_text(json.dumps({**DECLARATION, **changes}))
    with open_project(root) as project:
        stream = LiveStream(project)
        try:
            yield stream
        finally:
            stream._note()
            stream.close()


def require_exact_output(stream: LiveStream, *, both_send: bool = False) -> None:
    """Stop the stream and hold everything it left behind against what it must have left.

    Unless two replicas were to send at a time, one replica has committed under each token.
    """
    stream.stop()
    proof = stream.prove()
    assert proof.holds, (proof.faults(), stream.story())
    audit = stream.project.store.ledger.audit(NAME)
    assert not audit.holes, audit
    assert not audit.disagreements, audit
    senders = senders_by_token(stream)
    assert both_send or all(len(replicas) == 1 for replicas in senders.values()), senders
    stream.wait(lambda: not stream.left(), "end of all its processes", 30)


def senders_by_token(stream: LiveStream) -> dict[int, set[str]]:
    """Which replicas have committed epochs to the table, by the token that they had."""
    table = open_table(stream.project, NAME)
    assert table is not None
    senders: dict[int, set[str]] = {}
    for commit in table.history():
        if "holdfast.token" in commit:
            senders.setdefault(int(commit["holdfast.token"]), set()).add(commit["holdfast.replica"])
    return senders
