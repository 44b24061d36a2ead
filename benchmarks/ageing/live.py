"""A live stream, as old as it is: killed, timed, and measured."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from dagster._core.storage.tags import SCHEDULE_NAME_TAG
from deltalake import DeltaTable

from benchmarks.ageing.workload import INPUT, feed
from benchmarks.harness import median
from benchmarks.streams.kills import await_condition, kill_primary
from benchmarks.streams.measurements import Condition, Meter
from benchmarks.streams.project import RUN
from holdfast.configs.project import PROJECT_VARIABLE
from holdfast.ft_policies.health import Health
from holdfast.ft_policies.tiers import Tier
from holdfast.observation.status import observe_stream
from holdfast.orchestration.incidents import open_recovery
from holdfast.orchestration.jobs.dagster_history import PARTITION_TAG
from holdfast.orchestration.jobs.reports import REPORT_COSTS
from holdfast.orchestration.playbooks.lifecycle import Stop
from holdfast.orchestration.playbooks.recover import Start
from holdfast.orchestration.retention import REPLICA_LOGS
from holdfast.orchestration.services.dagster import DagsterServer
from holdfast.resources.control_store.records import ReplicaRow
from holdfast.resources.project import Project

SETTLE_EPOCHS = 30
QUIET_SECONDS = 30.0
STATUS_CALLS = 5
BLOCK_BYTES = 512
KILL_PHASE_SECONDS = 1.0
DEFINITIONS = "holdfast.orchestration.definitions"
# with the op that has to know the stream
SCHEDULED_JOBS = {
    "snapshot_stream": "snapshot",
    "compact_tables": "",
    "prune_snapshots": "",
    "audit": "",
    "report_now": "",
    REPORT_COSTS.name: "",
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
    log_rates: list[dict[str, float]] = field(default_factory=list)
    """Bytes a second by log, once for each time that it was left alone."""


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
        sizes, began = measure_logs(self.project, self._primary()), time.monotonic()
        cpu, rss = self._measure_use()
        grown = measure_logs(self.project, self._primary())
        measured.log_rates.append(compare_sizes(sizes, grown, time.monotonic() - began))
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
            tags = {SCHEDULE_NAME_TAG: job}
            if job == REPORT_COSTS.name:  # of the day so far: the project is no older
                today = datetime.fromtimestamp(self.project.store.now(), UTC).date()
                tags[PARTITION_TAG] = str(today)
            self._call(
                "dagster", "job", "execute", "-m", DEFINITIONS, "-j", job, "-c", str(config),
                "--tags", json.dumps(tags),
            )  # fmt: skip
            config.unlink()

    @property
    def committed(self) -> int:
        """The newest committed epoch."""
        last = self.project.store.ledger.last(self.stream)
        return -1 if last is None else last.epoch

    def _measure_use(self) -> tuple[float, float]:
        """CPU seconds of the replica per committed epoch, and its memory."""
        primary = self._primary()
        assert primary.pid is not None
        began, first = time.monotonic(), self.committed
        meter = Meter(primary.pid)
        time.sleep(QUIET_SECONDS)
        usage = meter.read()
        seconds = time.monotonic() - began
        return usage.cores * seconds / (self.committed - first), usage.rss_megabytes

    def _primary(self) -> ReplicaRow:
        primary = observe_stream(self.project, self.stream).primary
        assert primary is not None
        return primary

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


def measure_logs(project: Project, primary: ReplicaRow) -> dict[str, int]:
    """The sizes of the logs of services and primary, by name."""
    services = (project.config.home / "logs").glob("*.log")
    of_replica = (Path(primary.folder) / name for name in REPLICA_LOGS)
    return {log.name: log.stat().st_size for log in (*services, *of_replica) if log.exists()}


def compare_sizes(
    before: Mapping[str, int], after: Mapping[str, int], seconds: float
) -> dict[str, float]:
    """The bytes a second by which logs have grown."""
    return {name: max(0, size - before.get(name, 0)) / seconds for name, size in after.items()}


def find_log_rates(measured: Measured) -> dict[str, float]:
    """The median rate of each log."""
    names = {name for rates in measured.log_rates for name in rates}
    return {name: median([rates.get(name, 0.0) for rates in measured.log_rates]) for name in names}


def measure_disk(project: Project, stream: str) -> dict[str, float]:
    """Megabytes that the disk has given, by place: all of the home folder, and of the table all but its newest rows."""
    home, table = project.config.home, Path(project.config.table_path(stream))
    rows = {str(table / path) for path in DeltaTable(str(table)).file_uris()}
    places = {
        "control_store": list(home.glob("control.db*")),
        **{name: [home / name] for name in ("objects", "dagster", "replicas", "logs", "reports")},
        "table_log": [table / "_delta_log"],
        "table_old_files": [table / "data"],
    }
    counted = {*(path for paths in places.values() for path in paths), home / "tables"}
    places["other"] = [path for path in home.iterdir() if path not in counted]
    return {name: sum(measure_size(p, rows) for p in paths) / 1e6 for name, paths in places.items()}


def measure_size(path: Path, but: Collection[str] = ()) -> int:
    """The bytes of the blocks of a file, or of a folder with all folders and files in it, but for some files."""
    paths = [str(path)] if path.exists() else []
    for folder, folders, names in os.walk(path):
        paths += [f"{folder}/{name}" for name in (*folders, *names)]
    return sum(os.lstat(each).st_blocks * BLOCK_BYTES for each in paths if each not in but)
