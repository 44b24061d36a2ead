"""Deleting Dagster's old runs, with their events, through Dagster's own interface.

Events that a sensor reports without a run cannot be deleted one by one; so the observer reports few of them.
"""

from datetime import UTC, datetime

import dagster as dg

AT_ONCE = 100
PARTITION_TAG = "dagster/partition"
_FINISHED = (
    dg.DagsterRunStatus.SUCCESS,
    dg.DagsterRunStatus.FAILURE,
    dg.DagsterRunStatus.CANCELED,
)


def prune_dagster(instance: dg.DagsterInstance, *, before: float) -> int:
    """Delete finished runs that were created before a time; returns how many.

    Only its run says that a partition (a day of a report) is there, so the runs of partitions stay.
    """
    old = dg.RunsFilter(statuses=_FINISHED, created_before=datetime.fromtimestamp(before, UTC))
    kept, deleted = None, 0
    while records := instance.get_run_records(old, limit=AT_ONCE, ascending=True, cursor=kept):
        for run in (record.dagster_run for record in records):
            if PARTITION_TAG in run.tags:
                kept = run.run_id
            else:
                instance.delete_run(run.run_id)
                deleted += 1
    return deleted
