"""Deleting Dagster's old runs, with all they left behind, old events of assets and checks, and skipped ticks.

Dagster's own interface deletes the rows of a run. What it leaves is deleted here: the event file of a run, which
SQLite keeps for each, its captured logs, and events that a sensor has reported without a run. The newest event of
each kind stays, which is what the UI shows of an asset.
"""

import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import dagster as dg
import sqlalchemy as sa
from dagster._core.instance.utils import RUNLESS_RUN_ID
from dagster._core.scheduler.instigation import TickStatus
from dagster._core.storage.event_log.schema import (
    AssetCheckExecutionsTable,
    AssetEventTagsTable,
    SqlEventLogStorageTable,
)
from dagster._core.storage.event_log.sql_event_log import SqlEventLogStorage
from dagster._core.storage.event_log.sqlite import SqliteEventLogStorage
from dagster._core.storage.schedules.schema import JobTickTable
from dagster._core.storage.schedules.sql_schedule_storage import SqlScheduleStorage
from dagster._core.storage.schedules.sqlite.sqlite_schedule_storage import SqliteScheduleStorage
from dagster._core.storage.tags import SCHEDULE_NAME_TAG

log = logging.getLogger(__name__)

AT_ONCE = 100
EVENTS_AT_ONCE = 1_000
FREE_BYTES = 16 * 1024**2
PARTITION_TAG = "dagster/partition"
_FINISHED = (
    dg.DagsterRunStatus.SUCCESS,
    dg.DagsterRunStatus.FAILURE,
    dg.DagsterRunStatus.CANCELED,
)
_BEFORE = sa.bindparam("before", type_=sa.DateTime)


def _oldest(
    table: sa.Table, same: tuple[str, ...], *conditions: sa.ColumnElement[bool]
) -> sa.Select[tuple[int]]:
    """A portion of the old rows; the newest row with the `same` columns is not among them."""
    newer = table.alias("newer")
    has_newer = sa.exists().where(
        *(newer.c[name] == table.c[name] for name in same), newer.c.id > table.c.id
    )
    return sa.select(table.c.id).where(*conditions, has_newer).limit(EVENTS_AT_ONCE)


_EVENTS = _oldest(
    SqlEventLogStorageTable,
    ("run_id", "asset_key", "dagster_event_type"),
    SqlEventLogStorageTable.c.run_id == RUNLESS_RUN_ID,
    SqlEventLogStorageTable.c.timestamp < _BEFORE,
)
_TICKS = (
    sa.select(JobTickTable.c.id)
    .where(JobTickTable.c.status == TickStatus.SKIPPED.value, JobTickTable.c.timestamp < _BEFORE)
    .limit(EVENTS_AT_ONCE)
)
_CHECKS = _oldest(
    AssetCheckExecutionsTable,
    ("asset_key", "check_name"),
    AssetCheckExecutionsTable.c.create_timestamp < _BEFORE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DagsterLimits:
    """The times before which finished runs, runs of schedules that succeeded, and skipped ticks are deleted."""

    runs: float
    routine: float
    ticks: float


def prune_dagster(instance: dg.DagsterInstance, limits: DagsterLimits) -> int:
    """Delete finished runs, older events and skipped ticks; returns how many runs.

    The schedules of a stream have about ten runs an hour, of 130 to 360 KB each in SQLite, and they tell little once
    a newer one has succeeded. Sensors tick about once a second, mostly to skip.
    """
    deleted = _prune_runs(instance, limits.runs) + _prune_routine(instance, limits)
    events, schedules = instance.event_log_storage, instance.schedule_storage
    moment = _utc(limits.runs).replace(tzinfo=None)
    if isinstance(events, SqlEventLogStorage):
        _prune_rows(events.index_connection, SqlEventLogStorageTable, _EVENTS, moment)
        _prune_rows(events.index_connection, AssetCheckExecutionsTable, _CHECKS, moment)
        if isinstance(events, SqliteEventLogStorage):  # it keeps events without a run twice
            _prune_rows(_connect_runless(events), SqlEventLogStorageTable, _EVENTS, moment)
            _vacuum(events.index_connection)
            _vacuum(_connect_runless(events))
    if isinstance(schedules, SqlScheduleStorage):
        before = _utc(limits.ticks).replace(tzinfo=None)
        _prune_rows(schedules.connect, JobTickTable, _TICKS, before)
        if isinstance(schedules, SqliteScheduleStorage):
            _vacuum(schedules.connect)
    return deleted


def _utc(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


def _finished_runs(
    instance: dg.DagsterInstance, *statuses: dg.DagsterRunStatus, before: float
) -> Iterator[dg.DagsterRun]:
    """Runs that were created before a time, in portions; each may be deleted before the next is asked for."""
    ids = list(instance.get_run_ids(dg.RunsFilter(statuses=statuses, created_before=_utc(before))))
    for begin in range(0, len(ids), AT_ONCE):
        some = dg.RunsFilter(run_ids=ids[begin : begin + AT_ONCE])
        yield from instance.get_runs(some)


def _prune_runs(instance: dg.DagsterInstance, before: float) -> int:
    """Delete finished runs. Only its run says that a partition (a day of a report) is there: of it the events go."""
    deleted = 0
    for run in _finished_runs(instance, *_FINISHED, before=before):
        if PARTITION_TAG in run.tags:
            _delete_files(instance, run.run_id)
        else:
            _delete_run(instance, run.run_id)
            deleted += 1
    return deleted


def _prune_routine(instance: dg.DagsterInstance, limits: DagsterLimits) -> int:
    """Delete runs of schedules that succeeded, but the newest of each job."""
    done = dg.DagsterRunStatus.SUCCESS
    runs = [
        run
        for run in _finished_runs(instance, done, before=limits.routine)
        if SCHEDULE_NAME_TAG in run.tags and PARTITION_TAG not in run.tags
    ]
    newest = {
        run.run_id
        for job in {run.job_name for run in runs}
        for run in instance.get_runs(dg.RunsFilter(job_name=job, statuses=[done]), limit=1)
    }
    routine = [run.run_id for run in runs if run.run_id not in newest]
    for run_id in routine:
        _delete_run(instance, run_id)
    return len(routine)


def _vacuum(connect: Callable[[], AbstractContextManager[sa.Connection]]) -> None:
    """Write a SQLite file again if most of it is free: it would keep the largest size that it ever had."""
    with connect() as connection:
        sizes = [
            connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("page_size", "page_count", "freelist_count")
        ]
    page_bytes, pages, free = sizes
    if free * page_bytes < FREE_BYTES or 2 * free < pages:
        return
    with connect() as connection:
        driver = cast("sqlite3.Connection", connection.connection.driver_connection)
        driver.rollback()
        try:
            driver.execute("VACUUM")
        except (
            sqlite3.OperationalError
        ) as error:  # another process writes; the next hour tries again
            log.warning("the file of Dagster's storage keeps its size: %s", error)


def _connect_runless(
    events: SqliteEventLogStorage,
) -> Callable[[], AbstractContextManager[sa.Connection]]:
    return lambda: events.run_connection(RUNLESS_RUN_ID)


def _delete_run(instance: dg.DagsterInstance, run: str) -> None:
    instance.delete_run(run)
    _delete_files(instance, run)


def _delete_files(instance: dg.DagsterInstance, run: str) -> None:
    """Delete the events and logs of a run; what its assets have materialized stays in the index."""
    instance.compute_log_manager.delete_logs(prefix=[run])
    events = instance.event_log_storage
    if isinstance(events, SqliteEventLogStorage):
        for ending in ("", "-wal", "-shm"):
            Path(events.path_for_shard(run) + ending).unlink(missing_ok=True)


def _prune_rows(
    connect: Callable[[], AbstractContextManager[sa.Connection]],
    table: sa.Table,
    oldest: sa.Select[tuple[int]],
    before: datetime,
) -> None:
    while True:
        with connect() as connection:
            ids = list(connection.execute(oldest, {"before": before}).scalars())
            if table is SqlEventLogStorageTable:
                tags = AssetEventTagsTable
                connection.execute(sa.delete(tags).where(tags.c.event_id.in_(ids)))
            connection.execute(sa.delete(table).where(table.c.id.in_(ids)))
        if len(ids) < EVENTS_AT_ONCE:
            return
