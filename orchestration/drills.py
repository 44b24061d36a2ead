"""Drills: rehearsing on purpose what a failure would ask for, by hand or by the clock."""

import dagster as dg
from pydantic import Field

from assets.failures import explained
from assets.keys import snapshots_key
from assets.worlds import Worlds
from ft_policies.errors import TransientError
from orchestration.jobs import StreamConfig
from orchestration.playbooks.restore_drill import newest_provable, provable, restore_drill
from orchestration.reporting import (
    CAUSE_TAG,
    STREAM_TAG,
    name_stream,
    playbook_tags,
    report,
    timeline_table,
)


class ProveConfig(StreamConfig):
    """Which snapshot to prove."""

    snapshot: str = Field(default="", description="Its id; the newest that can be, if left out.")


@dg.op(description="Go on from a snapshot for one epoch, and compare with what was committed.")
def prove(
    context: dg.OpExecutionContext, config: ProveConfig, worlds: dg.ResourceParam[Worlds]
) -> None:
    """Prove a snapshot."""
    name_stream(context, config.stream)
    with explained(), worlds.open() as world:
        row = provable(world, config.stream, config.snapshot or None)
        steps = restore_drill(world, config.stream, context.run_id, snapshot=row.id)
        done = report(context, config.stream, steps)
    seconds = sum(one.seconds for one in done)
    proven: dict[str, str | int | float] = {
        "snapshot": row.id,
        "epoch": row.epoch,
        "proven_in_seconds": seconds,
    }
    context.log_event(dg.AssetObservation(snapshots_key(config.stream), metadata=proven))
    context.add_output_metadata({"steps": timeline_table(done), **proven})


@dg.job(
    description="The restore drill: restores a snapshot into a scratch folder, lets the stream's own query go "
    "on from it for one epoch without sending, and compares the output with the ledger.",
    tags=playbook_tags("restore_drill", max_runtime_seconds=1800),
    executor_def=dg.in_process_executor,
)
def prove_snapshot() -> None:
    """Prove one snapshot."""
    prove()


@dg.schedule(
    cron_schedule="23 3 * * *",
    job=prove_snapshot,
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.STOPPED,
    description="The newest snapshot of each stream, proven once a day. It starts Spark where Dagster runs, so it "
    "is off until somebody wants it.",
)
def restore_drills(
    context: dg.ScheduleEvaluationContext, worlds: dg.ResourceParam[Worlds]
) -> list[dg.RunRequest] | dg.SkipReason:
    """Ask for one proof a stream that has something to prove."""
    try:
        with worlds.open() as world:
            rows = {name: world.store.snapshots.of(name) for name in sorted(world.project.streams)}
            names = [name for name, known in rows.items() if newest_provable(world, name, known)]
    except TransientError as error:
        return dg.SkipReason(f"{error} ({error.hint})")
    at = context.scheduled_execution_time.isoformat()
    return [
        dg.RunRequest(
            run_key=f"{name}-{at}",
            run_config=dg.RunConfig(ops={"prove": ProveConfig(stream=name)}),
            tags={STREAM_TAG: name, CAUSE_TAG: "schedule"},
        )
        for name in names
    ] or dg.SkipReason("no stream has a snapshot that can be proven")
