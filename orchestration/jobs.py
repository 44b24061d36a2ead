"""The jobs by which people start, stop, switch and snapshot a stream, from the UI or a shell."""

import dagster as dg
from pydantic import Field

from assets.failures import explained
from assets.tiers import coverage_metadata
from assets.worlds import Worlds
from ft_policies.migration import Protocol
from ft_policies.tiers import Tier
from observation.coverage import coverage_of
from orchestration.asking import protocol_named, tier_named
from orchestration.playbooks.leaving import DEFAULT_PATIENCE_SECONDS
from orchestration.playbooks.migrate import (
    WITHIN_SECONDS,
    Wish,
    migrate as migrate_playbook,
    migration_plan,
)
from orchestration.playbooks.recover import start as start_playbook, start_plan
from orchestration.playbooks.snapshot import snapshot_now
from orchestration.playbooks.stop import stop as stop_playbook, stop_plan
from orchestration.playbooks.switch import switch as switch_playbook, switch_plan
from orchestration.reporting import (
    name_stream,
    playbook_tags,
    report,
    show_plan,
    timeline_table,
)
from streaming.observing import observe


class StreamConfig(dg.Config):
    """Which stream to act on."""

    stream: str = Field(description="A declared stream, for example word_count.")


class PlannedConfig(StreamConfig):
    """Which stream to act on, or only to plan for."""

    dry_run: bool = Field(
        default=False, description="Show the plan with what each step does, and change nothing."
    )


class StopConfig(PlannedConfig):
    """Which stream to stop, and how patiently."""

    patience_seconds: float = Field(
        default=DEFAULT_PATIENCE_SECONDS,
        ge=0.0,
        description="How long a replica may take to finish its epoch and ship, before it is ended.",
    )


class SwitchConfig(PlannedConfig):
    """Which stream to give which tier, and why."""

    tier: str = Field(description=f"One of {', '.join(Tier)}.")
    why: str = Field(default="asked in Dagster", description="For the history of the tier.")


class MigrateConfig(PlannedConfig):
    """Which stream to bring what is declared now, and how."""

    protocol: str = Field(
        default=Protocol.INTERRUPTION_FREE.value, description=f"One of {', '.join(Protocol)}."
    )
    within_seconds: float = Field(
        default=WITHIN_SECONDS, ge=1.0, description="Until it is rolled back if not level."
    )
    may_differ: bool = Field(
        default=False, description="The new code may put out something else for an epoch."
    )
    again: bool = Field(
        default=False, description="Though the declaration is the same: the code is not."
    )
    why: str = Field(default="asked in Dagster", description="For the history.")


class SnapshotConfig(StreamConfig):
    """Which stream to snapshot, and how patiently."""

    patience_seconds: float = Field(
        default=120.0, ge=0.0, description="How long the snapshot may take."
    )


@dg.op(description="Declare the stream, want it to run, and wait until it is level.")
def start(
    context: dg.OpExecutionContext, config: PlannedConfig, worlds: dg.ResourceParam[Worlds]
) -> None:
    """Start a stream."""
    name_stream(context, config.stream)
    with explained(), worlds.open() as world:
        if config.dry_run:
            plan = start_plan(world, config.stream)
            context.add_output_metadata({"plan": show_plan(context, plan)})
            return
        done = report(context, config.stream, start_playbook(world, config.stream, context.run_id))
    context.add_output_metadata({"steps": timeline_table(done)})


@dg.op(description="Ask the replicas to finish their epoch, ship a last snapshot and leave.")
def stop(
    context: dg.OpExecutionContext, config: StopConfig, worlds: dg.ResourceParam[Worlds]
) -> None:
    """Stop a stream."""
    name_stream(context, config.stream)
    patience = config.patience_seconds
    with explained(), worlds.open() as world:
        if config.dry_run:
            plan = stop_plan(world, config.stream)
            context.add_output_metadata({"plan": show_plan(context, plan)})
            return
        steps = stop_playbook(world, config.stream, context.run_id, patience_seconds=patience)
        done = report(context, config.stream, steps)
    context.add_output_metadata({"steps": timeline_table(done)})


@dg.op(description="Want another tier, and turn the secondary's switches, make before break.")
def switch(
    context: dg.OpExecutionContext, config: SwitchConfig, worlds: dg.ResourceParam[Worlds]
) -> None:
    """Give a stream another tier."""
    name_stream(context, config.stream)
    with explained(), worlds.open() as world:
        tier = tier_named(config.tier)
        if config.dry_run:
            shown = {"plan": show_plan(context, switch_plan(world, config.stream, tier))}
        else:
            steps = switch_playbook(world, config.stream, tier, context.run_id, why=config.why)
            shown = {"steps": timeline_table(report(context, config.stream, steps))}
        coverage = coverage_of(observe(world, config.stream))
    context.log.info("%s: %s", config.stream, coverage.reason)
    context.add_output_metadata({**shown, **coverage_metadata(coverage)})


@dg.op(description="Bring what is declared now to a running stream, by a target that takes over.")
def migrate(
    context: dg.OpExecutionContext, config: MigrateConfig, worlds: dg.ResourceParam[Worlds]
) -> None:
    """Migrate a stream."""
    name_stream(context, config.stream)
    with explained(), worlds.open() as world:
        wish = Wish(
            protocol=protocol_named(config.protocol),
            within_seconds=config.within_seconds,
            may_differ=config.may_differ,
            again=config.again,
            why=config.why,
        )
        if config.dry_run:
            plan = migration_plan(world, config.stream, context.run_id, wish)
            context.add_output_metadata({"plan": show_plan(context, plan)})
            return
        steps = migrate_playbook(world, config.stream, context.run_id, wish)
        done = report(context, config.stream, steps)
    context.add_output_metadata({"steps": timeline_table(done)})


@dg.op(description="Ask the primary for a snapshot and wait until it is in the object store.")
def snapshot(
    context: dg.OpExecutionContext, config: SnapshotConfig, worlds: dg.ResourceParam[Worlds]
) -> None:
    """Snapshot a stream now."""
    name_stream(context, config.stream)
    with explained(), worlds.open() as world:
        row = snapshot_now(world, config.stream, patience_seconds=config.patience_seconds)
    if row is None:
        context.log.warning("%s has committed nothing yet, so there is no snapshot", config.stream)
        return
    context.log.info("%s: %s new bytes, %.2f s", row.id, row.new_bytes, row.seconds)
    context.add_output_metadata(
        {"snapshot": row.id, "epoch": row.epoch, "new_bytes": row.new_bytes}
    )


@dg.op(description="Start the embedded object store unless it runs.")
def ensure(context: dg.OpExecutionContext, worlds: dg.ResourceParam[Worlds]) -> None:
    """Bring the embedded object store back."""
    with explained(), worlds.open() as world:
        world.ensure_object_store()
    context.log.info("the object store answers")


@dg.job(
    description="Starts a declared stream and waits until it is level. One that runs is left alone.",
    tags=playbook_tags("start", max_runtime_seconds=3600, priority=50),
    executor_def=dg.in_process_executor,
)
def start_stream() -> None:
    """Start one stream."""
    start()


@dg.job(
    description="Stops a stream: its replicas finish their epoch, ship a last snapshot and leave.",
    tags=playbook_tags("stop", max_runtime_seconds=900, priority=50),
    executor_def=dg.in_process_executor,
)
def stop_stream() -> None:
    """Stop one stream."""
    stop()


@dg.job(
    description="Gives a stream another tier and brings its replicas there one switch at a time, never "
    "weaker on the way than the weaker of the two. A run that is cut short is finished by the next.",
    tags=playbook_tags("switch", max_runtime_seconds=3600, priority=50),
    executor_def=dg.in_process_executor,
)
def switch_tier() -> None:
    """Switch one stream to another tier."""
    switch()


@dg.job(
    description="Brings what is declared now (resources, Spark conf, code) to a running stream: a target comes up "
    "beside the primary, and is handed the lease when it is ready; otherwise it is let go.",
    tags=playbook_tags("migrate", max_runtime_seconds=3600, priority=50),
    executor_def=dg.in_process_executor,
)
def migrate_stream() -> None:
    """Migrate one stream."""
    migrate()


@dg.job(
    description="Ships a snapshot of a running stream now, whatever its checkpoint policy says.",
    tags=playbook_tags("snapshot", max_runtime_seconds=900),
    executor_def=dg.in_process_executor,
)
def snapshot_stream() -> None:
    """Snapshot one stream."""
    snapshot()


@dg.job(
    description="Starts the embedded object store if it should run and does not.",
    tags=playbook_tags("ensure_object_store", max_runtime_seconds=300, priority=90),
    executor_def=dg.in_process_executor,
)
def ensure_object_store() -> None:
    """Bring the object store back."""
    ensure()
