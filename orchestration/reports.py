"""The jobs that make the reports, and when they do."""

from datetime import timedelta

import dagster as dg

from assets.keys import report_key
from assets.reports import days, decisions, model, what_if
from orchestration.reporting import CAUSE_TAG, playbook_tags

COST_REPORT = report_key(days.REPORT)
REPORTS_OF_NOW = [report_key(one.REPORT) for one in (decisions, model, what_if)]
REPORT_KEYS = [COST_REPORT, *REPORTS_OF_NOW]

REPORT_COSTS = dg.define_asset_job(
    "report_costs",
    selection=dg.AssetSelection.assets(COST_REPORT),
    description="Counts what fault tolerance cost in a day that is over, and checks the table.",
    tags=playbook_tags("report", max_runtime_seconds=3600),
    executor_def=dg.in_process_executor,
)
REPORT_NOW = dg.define_asset_job(
    "report_now",
    selection=dg.AssetSelection.assets(*REPORTS_OF_NOW),
    description="Reports decisions, predictions beside observations, and what other objectives "
    "would cost, and checks the tables.",
    tags=playbook_tags("report", max_runtime_seconds=3600),
    executor_def=dg.in_process_executor,
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


hourly_reports = dg.ScheduleDefinition(
    name="hourly_reports",
    cron_schedule="17 * * * *",
    job=REPORT_NOW,
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="The reports on how things are now, each hour.",
)
