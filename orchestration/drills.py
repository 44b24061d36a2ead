"""Drills: rehearsing on purpose what a failure would ask for, by hand or by the clock."""

import dagster as dg
from pydantic import Field

from assets.failures import explained
from assets.keys import snapshots_key
from assets.worlds import Worlds
from ft_policies.drill import CUT_OFF_SECONDS, Blow, objection
from ft_policies.errors import PermanentError, TransientError
from orchestration.asking import blow_named
from orchestration.jobs import PlannedConfig
from orchestration.playbooks.drill import Drill
from orchestration.playbooks.restore_drill import (
    newest_provable,
    provable,
    restore_drill,
    restore_drill_plan,
)
from orchestration.reporting import (
    name_stream,
    playbook_tags,
    report,
    scheduled_run,
    show_plan,
    timeline_table,
)
from resources.project import Project


class ProveConfig(PlannedConfig):
    """Which snapshot to prove."""

    snapshot: str = Field(default="", description="Its id; the newest that can be, if left out.")


@dg.op(description="Go on from a snapshot for one epoch, and compare with what was committed.")
def prove(
    context: dg.OpExecutionContext, config: ProveConfig, worlds: dg.ResourceParam[Worlds]
) -> None:
    """Prove a snapshot."""
    name_stream(context, config.stream)
    with explained(), worlds.open() as world:
        if config.dry_run:
            plan = restore_drill_plan(world, config.stream, snapshot=config.snapshot or None)
            context.add_output_metadata({"plan": show_plan(context, plan)})
            return
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


class DrillConfig(PlannedConfig):
    """Which stream to strike, and how."""

    blow: str = Field(default=Blow.KILL.value, description=f"One of {', '.join(Blow)}.")
    cut_off_seconds: float = Field(
        default=CUT_OFF_SECONDS, ge=1.0, description="How long the blow cut_off lasts."
    )
    beyond_budget: bool = Field(
        default=False, description="Even if the stream was disturbed often enough lately."
    )


@dg.op(description="Strike the primary of a live stream on purpose, and time its recovery.")
def strike(
    context: dg.OpExecutionContext, config: DrillConfig, worlds: dg.ResourceParam[Worlds]
) -> None:
    """Drill a stream; a recovery that misses the objective is a failure of the run."""
    name_stream(context, config.stream)
    with explained(), worlds.open() as world:
        drill = Drill(
            world=world,
            stream=config.stream,
            run=context.run_id,
            blow=blow_named(config.blow),
            cut_off_seconds=config.cut_off_seconds,
            beyond_budget=config.beyond_budget,
        )
        world.config.stream(config.stream)
        if config.dry_run:
            context.add_output_metadata({"plan": show_plan(context, drill.plan())})
            return
        done = report(context, config.stream, drill.steps())
        told = done[-1].found
        context.add_output_metadata({"steps": timeline_table(done), "outcome": told["sentence"]})
        if not told["held"]:
            raise PermanentError(
                f"{config.stream} was not back in time: {told['sentence']}",
                hint="choose a stronger tier, or mode auto; the samples of this drill count already",
            )


@dg.job(
    description="The drill: strikes the primary of a stream that is well, watches it come back, restores its "
    "redundancy, and compares what it took with the prediction and the objective.",
    tags=playbook_tags("drill", max_runtime_seconds=3600),
    executor_def=dg.in_process_executor,
)
def drill_stream() -> None:
    """Drill one stream."""
    strike()


@dg.schedule(
    cron_schedule="41 3 * * 2",
    job=drill_stream,
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.STOPPED,
    description="A failure of each stream's primary on purpose, once a week, as `drills.blow` declares it, where the "
    "stream is well and its budget of disturbances allows it. It is off until somebody wants it.",
)
def failure_drills(
    context: dg.ScheduleEvaluationContext, worlds: dg.ResourceParam[Worlds]
) -> list[dg.RunRequest] | dg.SkipReason:
    """Ask for one drill a stream that may be struck."""
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
            context, name, "strike", DrillConfig(stream=name, blow=streams[name].drills.blow)
        )
        for name, reason in objections.items()
        if reason is None
    ] or dg.SkipReason("; ".join(spared) or "no stream is declared")


def _objection(world: Project, stream: str) -> str | None:
    if world.store.streams.get(stream) is None:
        return "it was never started"
    return objection(Drill(world=world, stream=stream, run="").observed())


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
            rows = {name: world.store.snapshots.of(name) for name in sorted(world.config.streams)}
            names = [name for name, known in rows.items() if newest_provable(world, name, known)]
    except TransientError as error:
        return dg.SkipReason(f"{error} ({error.hint})")
    return [
        scheduled_run(context, name, "prove", ProveConfig(stream=name)) for name in names
    ] or dg.SkipReason("no stream has a snapshot that can be proven")
