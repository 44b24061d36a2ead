"""What a stream leaves in Dagster's storage: ticks of sensors and schedules, runs of schedules with their events, observations.

All are copies of what the live Dagster wrote before, at times and with run ids of their own; ticks of schedules, which are
rare, are made by Dagster's own code. Ticks are purged by Dagster's own settings, as its daemon does with each tick; runs
are deleted by the product's retention.
"""

import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import dagster as dg
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.scheduler.instigation import TickData, TickStatus
from dagster_shared.serdes import serialize_value

from holdfast.orchestration.jobs.dagster_history import PARTITION_TAG
from holdfast.orchestration.jobs.reports import REPORT_COSTS

HOUR_SECONDS, DAY_SECONDS = 3600.0, 86400.0
RUNS_PER_HOUR = {
    "snapshot_stream": 4,
    "compact_tables": 3,
    "prune_snapshots": 1,
    "audit": 1,
    "report_now": 1,
}
TICKS_PER_HOUR = {
    "durable_snapshots": 4.0,
    "compaction": 3.0,
    "retention": 1.0,
    "audits": 1.0,
    "hourly_reports": 1.0,
    "daily_costs": 1 / 24,
}
"""Of the schedules that are on."""
RUNLESS = ""
REPORTS_PER_HOUR = 4
_RENAMED = "replace(replace({0}, :old, :new), :was, :day)"
_PARTITION = "CASE WHEN :was = '' THEN partition ELSE replace(partition, :was, :day) END"
_EVENT_COLUMNS = "event, dagster_event_type, step_key, asset_key, partition"


@dataclass(frozen=True, slots=True)
class TickTemplate:
    """The last tick of a sensor or a schedule, and how many of its kind there are in an hour."""

    origin: str
    selector: str
    status: str
    kind: str
    body: str
    at: float
    per_hour: float


@dataclass
class DagsterAgeing:
    """Writes what hours leave in the storage of one Dagster."""

    home: Path
    templates: Path
    """A copy of the storage: the product deletes the runs that are copied before the month is over."""
    instance: dg.DagsterInstance
    ticks: Sequence[TickTemplate] = ()
    runs: dict[str, str] = field(default_factory=dict)
    """The template of each job: a run."""

    @classmethod
    def of(cls, home: Path, templates: Path, instance: dg.DagsterInstance) -> "DagsterAgeing":
        """Read what the live Dagster has left, which is stopped now."""
        shutil.copytree(home, templates)
        with closing(sqlite3.connect(home / "history" / "runs.db")) as runs:
            newest = runs.execute(
                "SELECT pipeline_name, run_id FROM runs WHERE status = 'SUCCESS' ORDER BY id"
            )
            run_ids = dict(newest.fetchall())
        ageing = cls(home, templates, instance, runs=run_ids)
        sensors = [
            tick for tick in ageing._read_ticks() if tick.kind == InstigatorType.SENSOR.value
        ]
        ageing.ticks = [*sensors, *build_schedule_ticks()]
        return ageing

    def write_hour(self, begin_at: float, *, recovery: bool) -> None:
        """Write the runs and the observations of an hour, which are kept for a week at most."""
        due = dict(RUNS_PER_HOUR)
        if recovery:
            due["recover_stream"] = 1
        for job, count in due.items():
            if job in self.runs:
                for number in range(count):
                    self._copy_run(self.runs[job], begin_at + number * HOUR_SECONDS / count)
        for number in range(REPORTS_PER_HOUR):
            self._copy_observations(begin_at + number * HOUR_SECONDS / REPORTS_PER_HOUR)

    def write_costs(self, begin_at: float) -> None:
        """Write the run that reports the costs of the day before: it is kept, and says that its partition is there."""
        template = self.runs.get(REPORT_COSTS.name)
        if template is not None:
            day = datetime.fromtimestamp(begin_at, UTC).date() - timedelta(days=1)
            self._copy_run(template, begin_at, partition=str(day))

    def write_ticks(self, begin_at: float, *, hours_left: float) -> None:
        """Write the ticks of an hour that are kept until the month is over, and those of a day more."""
        rows = []
        for tick in self.ticks:
            if tick.status == TickStatus.STARTED.value or not self._is_kept(tick, hours_left):
                continue
            count = round(tick.per_hour)
            if tick.per_hour < 1 and begin_at % DAY_SECONDS < HOUR_SECONDS:
                count = round(tick.per_hour * DAY_SECONDS / HOUR_SECONDS)
            for number in range(count):
                at = begin_at + number * HOUR_SECONDS / count
                moment = _stamp(at)
                body = tick.body.replace(str(int(tick.at)), str(int(at)))
                rows.append((tick.origin, tick.selector, tick.status, tick.kind, moment, body))
        with closing(sqlite3.connect(self.home / "schedules" / "schedules.db")) as ticks, ticks:
            ticks.executemany(
                "INSERT INTO job_ticks (job_origin_id, selector_id, status, type, timestamp, "
                "tick_body, create_timestamp, update_timestamp) "
                "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?5, ?5)",
                rows,
            )

    def _is_kept(self, tick: TickTemplate, hours_left: float) -> bool:
        days = self.instance.get_tick_retention_settings(InstigatorType(tick.kind))
        kept = days.get(TickStatus(tick.status), -1)
        return kept < 0 or hours_left * HOUR_SECONDS < (kept + 1) * DAY_SECONDS

    def purge_ticks(self, now: float) -> None:
        """Delete old ticks, as Dagster's daemon does."""
        for tick in self.ticks:
            days = self.instance.get_tick_retention_settings(InstigatorType(tick.kind))
            for status, kept in days.items():
                if kept >= 0:
                    before = now - kept * DAY_SECONDS
                    self.instance.purge_ticks(tick.origin, tick.selector, before, [status])

    def move(self, seconds: float) -> None:
        """Move the times by which ticks and runs are deleted."""
        shift = seconds / DAY_SECONDS
        days = "strftime('%Y-%m-%d %H:%M:%f', julianday({0}) + ?)"
        statements = {
            "history/runs.db": (
                f"UPDATE runs SET create_timestamp = {days.format('create_timestamp')}, "
                f"update_timestamp = {days.format('update_timestamp')}"
            ),
            "schedules/schedules.db": (
                f"UPDATE job_ticks SET timestamp = {days.format('timestamp')}, "
                f"create_timestamp = {days.format('create_timestamp')}"
            ),
        }
        for file, statement in statements.items():
            with closing(sqlite3.connect(self.home / file)) as database, database:
                database.execute(statement, (shift, shift))

    def _read_ticks(self) -> Iterator[TickTemplate]:
        with closing(sqlite3.connect(self.home / "schedules" / "schedules.db")) as database:
            rows = database.execute(
                "SELECT job_origin_id, selector_id, status, type, tick_body, "
                "(julianday(max(timestamp)) - 2440587.5) * 86400, count(*), "
                "(julianday(max(timestamp)) - julianday(min(timestamp))) * 86400 "
                "FROM job_ticks GROUP BY job_origin_id, selector_id, status, type"
            ).fetchall()
        span = max((row[7] for row in rows), default=0) or 1
        for origin, selector, status, kind, body, at, count, _ in rows:
            yield TickTemplate(
                origin, selector, status, kind, body, at, count * HOUR_SECONDS / span
            )

    def _copy_run(self, template: str, at: float, *, partition: str = "") -> None:
        run, shards = str(uuid4()), Path("history") / "runs"
        was = self._read_partition(template) if partition else ""
        names = {
            "old": template, "new": run, "at": _stamp(at), "unix": at, "was": was, "day": partition
        }  # fmt: skip
        with self._beside_templates(Path("history") / "runs.db") as runs:
            runs.execute(
                "INSERT INTO runs (run_id, snapshot_id, pipeline_name, mode, status, run_body, "
                "partition, partition_set, create_timestamp, update_timestamp, start_time, end_time, "
                "backfill_id) SELECT :new, snapshot_id, pipeline_name, mode, status, "
                f"{_RENAMED.format('run_body')}, {_PARTITION}, partition_set, :at, :at, :unix, "
                ":unix + end_time - start_time, backfill_id FROM templates.runs WHERE run_id = :old",
                names,
            )
            runs.execute(
                "INSERT INTO run_tags (run_id, key, value) SELECT :new, key, "
                f"{_RENAMED.format('value')} FROM templates.run_tags WHERE run_id = :old",
                names,
            )
        shard = self.home / shards / f"{run}.db"
        shutil.copyfile(self.templates / shards / f"{template}.db", shard)
        with closing(sqlite3.connect(shard)) as events, events:
            events.execute(
                f"UPDATE event_logs SET run_id = :new, event = {_RENAMED.format('event')}, "
                f"partition = {_PARTITION}, timestamp = :at",
                names,
            )
        self._copy_index(names)
        logs = self.templates / "storage" / template
        if logs.is_dir():
            shutil.copytree(logs, self.home / "storage" / run)

    def _read_partition(self, template: str) -> str:
        with closing(sqlite3.connect(self.templates / "history" / "runs.db")) as runs:
            query = "SELECT value FROM run_tags WHERE run_id = ? AND key = ?"
            row = runs.execute(query, (template, PARTITION_TAG)).fetchone()
        return "" if row is None else str(row[0])

    @contextmanager
    def _beside_templates(self, file: Path) -> Iterator[sqlite3.Connection]:
        """A database of the storage, with the template of the same name attached."""
        with closing(sqlite3.connect(self.home / file)) as database:
            database.execute("ATTACH DATABASE ? AS templates", (str(self.templates / file),))
            with database:
                yield database

    def _copy_index(self, names: dict[str, Any]) -> None:
        with self._beside_templates(Path("history") / "runs" / "index.db") as index:
            index.execute(
                f"INSERT INTO event_logs (run_id, timestamp, {_EVENT_COLUMNS}) SELECT :new, :at, "
                f"{_RENAMED.format('event')}, dagster_event_type, step_key, asset_key, {_PARTITION} "
                "FROM templates.event_logs WHERE run_id = :old",
                names,
            )
            index.execute(
                "INSERT INTO asset_check_executions (asset_key, check_name, partition, run_id, "
                "execution_status, evaluation_event, evaluation_event_timestamp, "
                "evaluation_event_storage_id, materialization_event_storage_id, create_timestamp) "
                f"SELECT asset_key, check_name, {_PARTITION}, :new, execution_status, "
                f"{_RENAMED.format('evaluation_event')}, :at, evaluation_event_storage_id, "
                "materialization_event_storage_id, :at FROM templates.asset_check_executions "
                "WHERE run_id = :old",
                names,
            )

    def _copy_observations(self, at: float) -> None:
        """What the observer reports without a run: the newest event of each asset and kind."""
        for name in (f"{RUNLESS}.db", "index.db"):
            file = self.home / "history" / "runs" / name
            if not file.exists():
                continue
            with closing(sqlite3.connect(file)) as events, events:
                events.execute(
                    f"INSERT INTO event_logs (run_id, timestamp, {_EVENT_COLUMNS}) "
                    f"SELECT run_id, ?, {_EVENT_COLUMNS} FROM event_logs WHERE id IN ("
                    "SELECT max(id) FROM event_logs WHERE run_id = '' AND "
                    "dagster_event_type = 'ASSET_MATERIALIZATION' GROUP BY asset_key)",
                    (_stamp(at),),
                )


def build_schedule_ticks() -> Iterator[TickTemplate]:
    """A tick of each schedule that is on, which has requested a run."""
    for name, per_hour in TICKS_PER_HOUR.items():
        origin, selector = uuid4().hex, uuid4().hex
        kind, status, at = InstigatorType.SCHEDULE, TickStatus.SUCCESS, 1_700_000_000.0
        run = str(uuid4())
        tick = TickData(
            origin, name, kind, status, at, run_ids=[run], run_keys=[name], selector_id=selector,
            end_timestamp=at,
        )  # fmt: skip
        yield TickTemplate(
            origin, selector, status.value, kind.value, serialize_value(tick), at, per_hour
        )


def _stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
