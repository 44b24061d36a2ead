"""The jobs that make the reports, and when they do."""

from datetime import timedelta

import dagster as dg

from holdfast.assets.keys import report_key
from holdfast.assets.reports import activity, decisions, model, what_if
from holdfast.observation.reports import costs
from holdfast.orchestration.jobs.base import CAUSE_TAG, by_the_clock, checking_job

COST_REPORT = report_key(costs.REPORT)
REPORTS_OF_NOW = [
    report_key(report)
    for report in (decisions.REPORT, model.REPORT, what_if.REPORT, *activity.REPORTS)
]
REPORT_KEYS = [COST_REPORT, *REPORTS_OF_NOW]

REPORT_COSTS = checking_job(
    "report_costs",
    dg.AssetSelection.assets(COST_REPORT),
    playbook="report",
    description="Counts what fault tolerance cost in a day that is over.",
)
REPORT_NOW = checking_job(
    "report_now",
    dg.AssetSelection.assets(*REPORTS_OF_NOW),
    playbook="report",
    description="Reports decisions, predictions beside observations, what other objectives would cost, "
    "drills, incidents and what playbooks did.",
)


@dg.schedule(
    cron_schedule="5 0 * * *",
    job=REPORT_COSTS,
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="The cost report of the day that has just ended (UTC).",
)
def daily_costs(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
    """Ask for yesterday."""
    yesterday = context.scheduled_execution_time.date() - timedelta(days=1)
    return dg.RunRequest(
        run_key=f"costs-{yesterday}", partition_key=str(yesterday), tags={CAUSE_TAG: "schedule"}
    )


hourly_reports = by_the_clock(
    "hourly_reports", "17 * * * *", REPORT_NOW, "The reports on how things are now, each hour."
)
