"""A live stream, as old as it is: killed, timed, and measured."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dagster._core.storage.tags import SCHEDULE_NAME_TAG
from deltalake import DeltaTable

from benchmarks.ageing.workload import INPUT, feed
from benchmarks.streams.kills import await_condition, kill_primary
from benchmarks.streams.measurements import Condition, Meter
from benchmarks.streams.project import RUN
from holdfast.configs.project import PROJECT_VARIABLE
from holdfast.ft_policies.health import Health
from holdfast.ft_policies.tiers import Tier
from holdfast.observation.status import observe_stream
from holdfast.orchestration.incidents import open_recovery
from holdfast.orchestration.playbooks.lifecycle import Stop
from holdfast.orchestration.playbooks.recover import Start
from holdfast.orchestration.services.dagster import DagsterServer
from holdfast.resources.project import Project

SETTLE_EPOCHS = 30
QUIET_SECONDS = 30.0
STATUS_CALLS = 5
KILL_PHASE_SECONDS = 1.0
DEFINITIONS = "holdfast.orchestration.definitions"
# with the op that has to know the stream
SCHEDULED_JOBS = {
    "snapshot_stream": "snapshot",
    "compact_tables": "",
    "prune_snapshots": "",
    "audit": "",
    "report_now": "",
}


@dataclass
class Measured:
    """What was measured of a stream at one age."""

    recovery_seconds: list[float] = field(default_factory=list)
    commit_cpu_seconds: list[float] = field(default_factory=list)
    status_seconds: list[float] = field(default_factory=list)
    rss_megabytes: list[float] = field(default_factory=list)
    parts: dict[str, float] = field(default_factory=dict)
    """Megabytes by place."""


@dataclass
class LiveStream:
    """One stream of a project, running under Dagster."""

    project: Project
    stream: str

    def settle(self) -> None:
        """Wait until the stream is healthy and some epochs further, and then for a snapshot."""
        self._wait(self._has_caught_up, "healthy stream")
        goal = self.committed + SETTLE_EPOCHS
        self._wait(lambda: self.committed >= goal, f"epoch {goal}")
        self._wait(self._has_caught_up, "healthy stream")
        newest = self._newest_snapshot()
        self._wait(lambda: self._newest_snapshot() != newest, "snapshot")

    def measure(self, measured: Measured) -> None:
        """Measure it once, and kill it."""
        self.settle()
        cpu, rss = self._measure_use()
        measured.commit_cpu_seconds.append(cpu)
        measured.rss_megabytes.append(rss)
        measured.status_seconds += [self._time_status() for _ in range(STATUS_CALLS)]
        self.settle()
        time.sleep(KILL_PHASE_SECONDS)
        killed = kill_primary(self.project, self.stream, Tier.PASSIVE_REPLICATION)
        measured.recovery_seconds.append(killed.to_next_epoch)

    def run_scheduled_jobs(self) -> None:
        """Run what Dagster's schedules run, so that its storage has a run of each to copy."""
        for job, op in SCHEDULED_JOBS.items():
            config = self.project.config.home / "dagster" / "run.yaml"
            config.write_text(
                json.dumps({"ops": {op: {"config": {"stream": self.stream}}}} if op else {})
            )
            tags = json.dumps({SCHEDULE_NAME_TAG: job})
            self._call(
                "dagster", "job", "execute", "-m", DEFINITIONS, "-j", job, "-c", str(config),
                "--tags", tags,
            )  # fmt: skip
            config.unlink()

    @property
    def committed(self) -> int:
        """The newest committed epoch."""
        last = self.project.store.ledger.last(self.stream)
        return -1 if last is None else last.epoch

    def _measure_use(self) -> tuple[float, float]:
        """CPU seconds of the replica per committed epoch, and its memory."""
        primary = observe_stream(self.project, self.stream).primary
        assert primary is not None
        assert primary.pid is not None
        began, first = time.monotonic(), self.committed
        meter = Meter(primary.pid)
        time.sleep(QUIET_SECONDS)
        usage = meter.read()
        seconds = time.monotonic() - began
        return usage.cores * seconds / (self.committed - first), usage.rss_megabytes

    def _time_status(self) -> float:
        began = time.monotonic()
        self._call("holdfast.orchestration.cli.main", "status")
        return time.monotonic() - began

    def _call(self, module: str, *arguments: str) -> None:
        config = self.project.config
        subprocess.run(
            [sys.executable, "-m", module, *arguments],
            env={
                **os.environ,
                PROJECT_VARIABLE: str(config.root),
                "DAGSTER_HOME": str(config.home / "dagster"),
            },
            check=True,
            capture_output=True,
            cwd=config.root,
        )

    def _has_caught_up(self) -> bool:
        status = observe_stream(self.project, self.stream)
        is_idle = open_recovery(self.project, self.stream) is None
        return status.verdict.health is Health.HEALTHY and status.is_settled and is_idle

    def _newest_snapshot(self) -> str | None:
        row = self.project.store.snapshots.newest(self.stream)
        return None if row is None else row.id

    def _wait(self, condition: Condition, what: str) -> None:
        await_condition(self.project, self.stream, condition, what)


@contextmanager
def running(project: Project, stream: str, root: Path) -> Iterator[LiveStream]:
    """The stream with its input and Dagster; afterwards it is stopped, with a last snapshot."""
    with ExitStack() as stack:
        if project.config.stream(stream).source.kind == "files":
            stack.enter_context(feed(root / INPUT))
        for _ in Start(project, stream, RUN).steps():
            pass
        dagster = DagsterServer(project.config)
        dagster.ensure()
        try:
            yield LiveStream(project, stream)
        finally:
            dagster.stop()
            for _ in Stop(project, stream, RUN).steps():
                pass


def measure_disk(project: Project, stream: str) -> dict[str, float]:
    """Megabytes by place, without the input and without the files of the table's newest version."""
    home, table = project.config.home, Path(project.config.table_path(stream))
    rows = {str(table / path) for path in DeltaTable(str(table)).file_uris()}
    places = {
        "control_store": list(home.glob("control.db*")),
        "objects": [home / "objects"],
        "dagster": [home / "dagster"],
        "replicas": [home / "replicas"],
        "logs": [home / "logs"],
        "table_log": [table / "_delta_log"],
        "table_old_files": [table / "data"],
    }
    return {name: sum(_size(path, rows) for path in paths) / 1e6 for name, paths in places.items()}


def _size(path: Path, but: set[str]) -> int:
    if path.is_file():
        return path.stat().st_size
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            file = f"{folder}/{name}"
            total += 0 if file in but else os.lstat(file).st_size
    return total
