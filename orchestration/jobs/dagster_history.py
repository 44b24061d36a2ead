"""Deleting Dagster's old runs, with all they left behind, and old events of assets and checks.

Dagster's own interface deletes the rows of a run. What it leaves is deleted here: the event file of a run, which
SQLite keeps for each, its captured logs, and events that a sensor has reported without a run. The newest event of
each kind stays, which is what the UI shows of an asset.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import sqlalchemy as sa
from dagster._core.instance.utils import RUNLESS_RUN_ID
from dagster._core.storage.event_log.schema import (
    AssetCheckExecutionsTable,
    AssetEventTagsTable,
    SqlEventLogStorageTable,
)
from dagster._core.storage.event_log.sql_event_log import SqlEventLogStorage
from dagster._core.storage.event_log.sqlite import SqliteEventLogStorage

AT_ONCE = 100
EVENTS_AT_ONCE = 1_000
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
_CHECKS = _oldest(
    AssetCheckExecutionsTable,
    ("asset_key", "check_name"),
    AssetCheckExecutionsTable.c.create_timestamp < _BEFORE,
)


def prune_dagster(instance: dg.DagsterInstance, *, before: float) -> int:
    """Delete finished runs that were created before a time, and older events; returns how many runs.

    Only its run says that a partition (a day of a report) is there, so the runs of partitions stay.
    """
    at = datetime.fromtimestamp(before, UTC)
    old = dg.RunsFilter(statuses=_FINISHED, created_before=at)
    kept, deleted = None, 0
    while records := instance.get_run_records(old, limit=AT_ONCE, ascending=True, cursor=kept):
        for run in (record.dagster_run for record in records):
            if PARTITION_TAG in run.tags:
                kept = run.run_id
            else:
                _delete_run(instance, run.run_id)
                deleted += 1
    events = instance.event_log_storage
    if isinstance(events, SqlEventLogStorage):
        moment = at.replace(tzinfo=None)
        _prune_rows(events.index_connection, SqlEventLogStorageTable, _EVENTS, moment)
        _prune_rows(events.index_connection, AssetCheckExecutionsTable, _CHECKS, moment)
        if isinstance(events, SqliteEventLogStorage):  # it keeps events without a run twice
            _prune_rows(_connect_runless(events), SqlEventLogStorageTable, _EVENTS, moment)
    return deleted


def _connect_runless(
    events: SqliteEventLogStorage,
) -> Callable[[], AbstractContextManager[sa.Connection]]:
    return lambda: events.run_connection(RUNLESS_RUN_ID)


def _delete_run(instance: dg.DagsterInstance, run: str) -> None:
    instance.delete_run(run)
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
