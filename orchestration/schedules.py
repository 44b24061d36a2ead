"""What happens by the clock: durable snapshots, retention, audits."""

import dagster as dg

from assets.worlds import Worlds
from ft_policies.errors import TransientError
from orchestration.housekeeping import prune_snapshots
from orchestration.jobs import SnapshotConfig, snapshot_stream
from orchestration.reporting import by_the_clock, checking_job, scheduled_run
from orchestration.reports import REPORT_KEYS
from streaming.observing import StreamSeen, observe

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


retention = by_the_clock(
    "retention", "7 * * * *", prune_snapshots, "Drops what no retention keeps, each hour."
)
audits = by_the_clock("audits", "37 * * * *", AUDIT, "Runs every check, each hour.")


def _can_ship(seen: StreamSeen) -> bool:
    return seen.wanted and seen.primary is not None and not seen.verdict.health.failed
