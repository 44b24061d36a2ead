"""The jobs that make the reports, and their schedules."""

from datetime import timedelta

import dagster as dg

from holdfast.assets.keys import report_key
from holdfast.assets.reports import activity, decisions, model, what_if
from holdfast.observation.reports import costs
from holdfast.orchestration.jobs.base import CAUSE_TAG, build_check_job, build_schedule

COST_REPORT = report_key(costs.REPORT)
REPORTS_OF_NOW = [
    report_key(report)
    for report in (decisions.REPORT, model.REPORT, what_if.REPORT, *activity.REPORTS)
]
REPORT_KEYS = [COST_REPORT, *REPORTS_OF_NOW]

REPORT_COSTS = build_check_job(
    "report_costs",
    dg.AssetSelection.assets(COST_REPORT),
    playbook="report",
    description="Computes the cost of fault tolerance on a day, or on today so far.",
)
REPORT_NOW = build_check_job(
    "report_now",
    dg.AssetSelection.assets(*REPORTS_OF_NOW),
    playbook="report",
    description="Reports decisions, predictions beside observations, the cost of other objectives, drills, "
    "incidents and the steps of playbooks.",
)


@dg.schedule(
    cron_schedule="5 0 * * *",
    job=REPORT_COSTS,
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Makes the cost report of the day that has just ended (UTC).",
)
def daily_costs(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
    """Request the report of yesterday."""
    yesterday = context.scheduled_execution_time.date() - timedelta(days=1)
    return dg.RunRequest(
        run_key=f"costs-{yesterday}", partition_key=str(yesterday), tags={CAUSE_TAG: "schedule"}
    )


hourly_reports = build_schedule(
    "hourly_reports", "17 * * * *", REPORT_NOW, "Makes the reports on the current state, each hour."
)
