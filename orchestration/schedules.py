"""What happens by the clock: durable snapshots, retention, audits, drills."""

import dagster as dg

from holdfast.assets.project_resource import Worlds
from holdfast.ft_policies.errors import TransientError
from holdfast.ft_policies.playbooks.drill import objection
from holdfast.observation.status import StreamSeen, observe
from holdfast.orchestration.jobs.base import by_the_clock, checking_job, scheduled_run
from holdfast.orchestration.jobs.drills import (
    DrillConfig,
    ProveConfig,
    drill_stream,
    prove_snapshot,
)
from holdfast.orchestration.jobs.lifecycle import SnapshotConfig, snapshot_stream
from holdfast.orchestration.jobs.maintenance import prune_snapshots
from holdfast.orchestration.jobs.reports import REPORT_KEYS
from holdfast.orchestration.playbooks.drill import Drill
from holdfast.orchestration.playbooks.prove import newest_provable
from holdfast.resources.project import Project

AUDIT = checking_job(
    "audit",
    dg.AssetSelection.all_asset_checks()
    - dg.AssetSelection.checks_for_assets(*REPORT_KEYS),  # they are run with the reports
    playbook="audit",
    description="Runs every check of every stream: health, snapshots, ledger against table, expectations.",
)


@dg.schedule(
    cron_schedule="*/15 * * * *",
    job=snapshot_stream,
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="A snapshot of each running stream, whatever its own checkpoint policy says.",
)
def durable_snapshots(
    context: dg.ScheduleEvaluationContext, worlds: dg.ResourceParam[Worlds]
) -> list[dg.RunRequest] | dg.SkipReason:
    """Ask for one snapshot a running stream; stopped ones are skipped."""
    try:
        with worlds.open() as world:
            seen = [observe(world, name) for name in sorted(world.config.streams)]
    except TransientError as error:
        return dg.SkipReason(f"{error} ({error.hint})")
    idle = [f"{one.name} is {one.verdict.health}" for one in seen if not _can_ship(one)]
    running = [one for one in seen if _can_ship(one)]
    if not running:
        return dg.SkipReason("; ".join(idle) or "no stream is declared")
    if idle:
        context.log.info("skipped: %s", "; ".join(idle))
    return [
        scheduled_run(context, one.name, "snapshot", SnapshotConfig(stream=one.name))
        for one in running
    ]


@dg.schedule(
    cron_schedule="41 3 * * 2",
    job=drill_stream,
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.STOPPED,
    description="A fault in each stream's primary, once a week, as `drills.fault` declares it, where the "
    "stream is healthy and its budget of disturbances allows it. It is off until it is turned on.",
)
def failure_drills(
    context: dg.ScheduleEvaluationContext, worlds: dg.ResourceParam[Worlds]
) -> list[dg.RunRequest] | dg.SkipReason:
    """Ask for one drill a stream that may be disturbed."""
    try:
        with worlds.open() as world:
            streams = world.config.streams
            objections = {name: _objection(world, name) for name in sorted(streams)}
    except TransientError as error:
        return dg.SkipReason(f"{error} ({error.hint})")
    spared = [f"{name}: {reason}" for name, reason in objections.items() if reason is not None]
    if spared:
        context.log.info("spared: %s", "; ".join(spared))
    return [
        scheduled_run(
            context, name, "drill", DrillConfig(stream=name, fault=streams[name].drills.fault)
        )
        for name, reason in objections.items()
        if reason is None
    ] or dg.SkipReason("; ".join(spared) or "no stream is declared")


def _objection(world: Project, stream: str) -> str | None:
    if world.store.streams.get(stream) is None:
        return "it was never started"
    return objection(Drill(world, stream, "").observe())


@dg.schedule(
    cron_schedule="23 3 * * *",
    job=prove_snapshot,
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.STOPPED,
    description="The newest snapshot of each stream, proven once a day. It starts Spark where Dagster runs, so it "
    "is off until it is turned on.",
)
def restore_drills(
    context: dg.ScheduleEvaluationContext, worlds: dg.ResourceParam[Worlds]
) -> list[dg.RunRequest] | dg.SkipReason:
    """Ask for one proof a stream that has something to prove."""
    try:
        with worlds.open() as world:
            rows = {name: world.store.snapshots.of(name) for name in sorted(world.config.streams)}
            names = [name for name, known in rows.items() if newest_provable(world, name, known)]
    except TransientError as error:
        return dg.SkipReason(f"{error} ({error.hint})")
    return [
        scheduled_run(context, name, "prove", ProveConfig(stream=name)) for name in names
    ] or dg.SkipReason("no stream has a snapshot that can be proven")


retention = by_the_clock(
    "retention", "7 * * * *", prune_snapshots, "Drops what no retention keeps, each hour."
)
audits = by_the_clock("audits", "37 * * * *", AUDIT, "Runs every check, each hour.")


def _can_ship(seen: StreamSeen) -> bool:
    return seen.wanted and seen.primary is not None and not seen.verdict.health.failed
