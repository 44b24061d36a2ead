"""Runs that were at work when Dagster was killed: nobody is at them any more, but Dagster goes on counting them.

Its queue lets only so many runs work at a time, so a few of them would keep every recovery waiting.
"""

from pathlib import Path

import dagster as dg

AT_WORK = [
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
REASON = "Dagster ended while this run was at work. What it was to do is found out anew, and done by another"


def end_forgotten_runs(home: Path) -> int:
    """Say of all runs that were at work that they have failed: to be called while no Dagster runs."""
    with dg.DagsterInstance.from_config(str(home)) as instance:
        forgotten = instance.get_runs(dg.RunsFilter(statuses=AT_WORK))
        for run in forgotten:
            instance.report_run_failed(run, REASON)
    return len(forgotten)
