"""Deleting Dagster's old runs with all that they left, and old events that sensors reported without a run.

Dagster's own interface deletes a run and its events. It leaves the SQLite file of the run (0.1 MB), its logs and the
results of its checks, and it cannot delete events without a run; so these are deleted here, where the storage is SQL.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import sqlalchemy as sa
from dagster._core.instance.utils import RUNLESS_RUN_ID
from dagster._core.storage.event_log.schema import (
    AssetCheckExecutionsTable as Checks,
    AssetEventTagsTable as EventTags,
    SqlEventLogStorageTable as Events,
)
from dagster._core.storage.event_log.sql_event_log import SqlEventLogStorage
from dagster._core.storage.event_log.sqlite.sqlite_event_log import SqliteEventLogStorage

AT_ONCE = 100
PARTITION_TAG = "dagster/partition"
_FINISHED = (
    dg.DagsterRunStatus.SUCCESS,
    dg.DagsterRunStatus.FAILURE,
    dg.DagsterRunStatus.CANCELED,
)


def prune_dagster(instance: dg.DagsterInstance, *, before: float) -> int:
    """Delete finished runs that were created before a time, and older events without a run; returns how many runs.

    Only its run says that a partition (a day of a report) is there, so the runs of partitions stay.
    """
    moment = datetime.fromtimestamp(before, UTC)
    old = dg.RunsFilter(statuses=_FINISHED, created_before=moment)
    kept, deleted = None, 0
    while records := instance.get_run_records(old, limit=AT_ONCE, ascending=True, cursor=kept):
        runs = [record.dagster_run for record in records]
        gone = [run.run_id for run in runs if PARTITION_TAG not in run.tags]
        kept = next((run.run_id for run in reversed(runs) if run.run_id not in gone), kept)
        for run_id in gone:
            _delete_run(instance, run_id)
        _delete_check_results(instance, gone)
        deleted += len(gone)
    _delete_runless_events(instance, moment)
    return deleted


def _delete_run(instance: dg.DagsterInstance, run_id: str) -> None:
    instance.delete_run(run_id)
    storage = instance.event_log_storage
    if isinstance(storage, SqliteEventLogStorage):
        shard = Path(storage.path_for_shard(run_id))
        for file in (shard, *shard.parent.glob(f"{shard.name}-*")):
            file.unlink(missing_ok=True)
    instance.compute_log_manager.delete_logs(prefix=[run_id])


def _delete_check_results(instance: dg.DagsterInstance, runs: Sequence[str]) -> None:
    """Delete the results of checks in these runs, except the newest of each check."""
    storage = instance.event_log_storage
    if not isinstance(storage, SqlEventLogStorage) or not runs:
        return
    newest = sa.select(sa.func.max(Checks.c.id)).group_by(Checks.c.asset_key, Checks.c.check_name)
    with storage.index_connection() as connection:
        connection.execute(
            sa.delete(Checks).where(Checks.c.run_id.in_(runs), Checks.c.id.not_in(newest))
        )


def _delete_runless_events(instance: dg.DagsterInstance, moment: datetime) -> None:
    """Delete events without a run from before a time, except the newest of each asset and kind."""
    storage = instance.event_log_storage
    if not isinstance(storage, SqlEventLogStorage):
        return
    runless = Events.c.run_id == RUNLESS_RUN_ID
    newest = (
        sa.select(sa.func.max(Events.c.id))
        .where(runless)
        .group_by(Events.c.asset_key, Events.c.dagster_event_type)
    )
    old = sa.select(Events.c.id).where(
        runless, Events.c.timestamp < moment.replace(tzinfo=None), Events.c.id.not_in(newest)
    )
    with storage.index_connection() as connection:
        connection.execute(sa.delete(EventTags).where(EventTags.c.event_id.in_(old)))
        connection.execute(sa.delete(Events).where(Events.c.id.in_(old)))
    with storage.run_connection(RUNLESS_RUN_ID) as connection:  # SQLite has them twice
        connection.execute(sa.delete(Events).where(Events.c.id.in_(old)))
