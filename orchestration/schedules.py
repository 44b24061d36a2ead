"""The schedules: durable snapshots, compaction, retention, audits, drills."""

import dagster as dg

from holdfast.assets.project_resource import ProjectResource
from holdfast.ft_policies.errors import TransientError
from holdfast.ft_policies.playbooks.drill import objection
from holdfast.observation.status import StreamStatus
from holdfast.orchestration.incidents import observe_all
from holdfast.orchestration.jobs.base import build_check_job, build_schedule, request_scheduled_run
from holdfast.orchestration.jobs.choices import FaultChoice
from holdfast.orchestration.jobs.drills import (
    DrillConfig,
    ProveConfig,
    drill_stream,
    prove_snapshot,
)
from holdfast.orchestration.jobs.lifecycle import SnapshotConfig, snapshot_stream
from holdfast.orchestration.jobs.maintenance import compact_tables, prune_snapshots
from holdfast.orchestration.jobs.reports import REPORT_KEYS
from holdfast.orchestration.playbooks.drill.drill import Drill
from holdfast.orchestration.playbooks.recompute import find_newest_provable
from holdfast.resources.project import Project

UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
AUDIT = build_check_job(
    "audit",
    dg.AssetSelection.all_asset_checks()
    - dg.AssetSelection.checks_for_assets(*REPORT_KEYS),  # these run with the reports
    playbook="audit",
    description="Runs every check of every stream: health, snapshots, ledger against table, expectations.",
)


@dg.schedule(
    cron_schedule="*/15 * * * *",
    job=snapshot_stream,
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Ships a snapshot of each running stream, independent of its own checkpoint policy.",
)
def durable_snapshots(
    context: dg.ScheduleEvaluationContext, projects: dg.ResourceParam[ProjectResource]
) -> list[dg.RunRequest] | dg.SkipReason:
    """Request one snapshot for each running stream; stopped ones are skipped."""
    try:
        with projects.open() as project:
            statuses = list(observe_all(project, sorted(project.config.streams)).values())
    except TransientError as error:
        return dg.SkipReason(f"{error} ({error.hint})")
    idle = [f"{row.name} is {row.verdict.health}" for row in statuses if not _can_ship(row)]
    running = [status for status in statuses if _can_ship(status)]
    if not running:
        return dg.SkipReason("; ".join(idle) or "no stream is declared")
    if idle:
        context.log.info("skipped: %s", "; ".join(idle))
    return [
        request_scheduled_run(context, status.name, "snapshot", SnapshotConfig(stream=status.name))
        for status in running
    ]


@dg.schedule(
    cron_schedule="41 3 * * 2",
    job=drill_stream,
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.STOPPED,
    description="Injects the fault that `drills.fault` declares into the primary of each stream once a week, if "
    "the stream is healthy and its budget of disturbances allows it. Off by default.",
)
def failure_drills(
    context: dg.ScheduleEvaluationContext, projects: dg.ResourceParam[ProjectResource]
) -> list[dg.RunRequest] | dg.SkipReason:
    """Request one drill for each stream that may be disturbed."""
    try:
        with projects.open() as project:
            streams = project.config.streams
            objections = {name: _objection(project, name) for name in sorted(streams)}
    except TransientError as error:
        return dg.SkipReason(f"{error} ({error.hint})")
    skipped = [f"{name}: {reason}" for name, reason in objections.items() if reason is not None]
    if skipped:
        context.log.info("skipped: %s", "; ".join(skipped))
    return [
        request_scheduled_run(
            context,
            name,
            "drill",
            DrillConfig(stream=name, fault=FaultChoice(streams[name].drills.fault.value)),
        )
        for name, reason in objections.items()
        if reason is None
    ] or dg.SkipReason("; ".join(skipped) or "no stream is declared")


def _objection(project: Project, stream: str) -> str | None:
    if project.store.streams.get(stream) is None:
        return "it was never started"
    return objection(Drill(project, stream, "").observe())


@dg.schedule(
    cron_schedule="23 3 * * *",
    job=prove_snapshot,
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.STOPPED,
    description="Proves the newest snapshot of each stream once a day. It starts Spark on the host of Dagster. Off "
    "by default.",
)
def snapshot_proofs(
    context: dg.ScheduleEvaluationContext, projects: dg.ResourceParam[ProjectResource]
) -> list[dg.RunRequest] | dg.SkipReason:
    """Request one proof for each stream with a snapshot that can be proven."""
    try:
        with projects.open() as project:
            rows = {
                name: project.store.snapshots.of(name) for name in sorted(project.config.streams)
            }
            names = [
                name
                for name, of_name in rows.items()
                if find_newest_provable(project, name, of_name)
            ]
    except TransientError as error:
        return dg.SkipReason(f"{error} ({error.hint})")
    return [
        request_scheduled_run(context, name, "prove", ProveConfig(stream=name)) for name in names
    ] or dg.SkipReason("no stream has a snapshot that can be proven")


@dg.schedule(
    cron_schedule="3,23,43 * * * *",
    job=compact_tables,
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Merges the old files in the tables of all streams, so that commits do not slow down.",
)
def compaction(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
    """Request one compaction of all streams, unless one is waiting or at work."""
    unfinished = dg.RunsFilter(job_name=compact_tables.name, statuses=UNFINISHED)
    if context.instance.get_runs_count(unfinished):
        return dg.SkipReason("a compaction is still in progress")
    return dg.RunRequest()


retention = build_schedule(
    "retention",
    "7 * * * *",
    prune_snapshots,
    "Drops the snapshots that retention does not keep, each hour.",
)
audits = build_schedule("audits", "37 * * * *", AUDIT, "Runs every check, each hour.")


def _can_ship(status: StreamStatus) -> bool:
    return status.wanted and status.primary is not None and not status.verdict.health.failed
