"""The jobs that start, stop, switch, migrate and snapshot a stream, from the UI or a shell."""

from typing import Any

import dagster as dg
from pydantic import Field

from holdfast.assets.project_resource import Worlds, explained
from holdfast.assets.tiers import coverage_metadata
from holdfast.ft_policies.playbooks.recover.migration import Protocol
from holdfast.ft_policies.tiers import Tier
from holdfast.ft_policies.timings import LEAVE_WITHIN_SECONDS
from holdfast.observation.coverage import coverage_of
from holdfast.observation.status import observe
from holdfast.orchestration.jobs.base import (
    PlannedConfig,
    StreamConfig,
    name_stream,
    playbook_op,
    show_plan,
    show_steps,
    single_op_job,
)
from holdfast.orchestration.parsing import parse_enum
from holdfast.orchestration.playbooks.lifecycle import Stop, SwitchTier, snapshot_now
from holdfast.orchestration.playbooks.migrate import WITHIN_SECONDS, Migrate, MigrationRequest
from holdfast.orchestration.playbooks.recover import Start
from holdfast.resources.project import Project


class StopConfig(PlannedConfig):
    """Which stream to stop, and how patiently."""

    patience_seconds: float = Field(
        default=LEAVE_WITHIN_SECONDS,
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
        default=WITHIN_SECONDS, ge=1.0, description="Until it is rolled back if not caught up."
    )
    may_differ: bool = Field(
        default=False, description="The new code may put out something else for an epoch."
    )
    again: bool = Field(
        default=False, description="Though the declaration is the same: the code is not."
    )
    why: str = Field(default="asked in Dagster", description="For the history.")

    def request(self) -> MigrationRequest:
        """The migration that is asked for."""
        return MigrationRequest(
            protocol=parse_enum(Protocol, self.protocol),
            within_seconds=self.within_seconds,
            may_differ=self.may_differ,
            again=self.again,
            why=self.why,
        )


class SnapshotConfig(StreamConfig):
    """Which stream to snapshot, and how patiently."""

    patience_seconds: float = Field(
        default=120.0, ge=0.0, description="How long the snapshot may take."
    )


def _start(world: Project, config: PlannedConfig, run: str) -> Start:
    return Start(world, config.stream, run)


def _stop(world: Project, config: StopConfig, run: str) -> Stop:
    return Stop(world, config.stream, run, patience_seconds=config.patience_seconds)


def _switch(world: Project, config: SwitchConfig, run: str) -> SwitchTier:
    tier = parse_enum(Tier, config.tier)
    return SwitchTier(world, config.stream, run, tier=tier, why=config.why)


def _migrate(world: Project, config: MigrateConfig, run: str) -> Migrate:
    return Migrate(world, config.stream, run, request=config.request())


def _run_switch(context: dg.OpExecutionContext, switch: SwitchTier) -> dict[str, Any]:
    return {**show_steps(context, switch), **_coverage(context, switch)}


def _plan_switch(context: dg.OpExecutionContext, switch: SwitchTier) -> dict[str, Any]:
    return {**show_plan(context, switch), **_coverage(context, switch)}


def _coverage(context: dg.OpExecutionContext, switch: SwitchTier) -> dict[str, Any]:
    """What the replicas cover by now."""
    coverage = coverage_of(observe(switch.world, switch.stream))
    context.log.info("%s: %s", switch.stream, coverage.reason)
    return dict(coverage_metadata(coverage))


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


@dg.op(description="Start the embedded object store, unless it serves already.")
def ensure(context: dg.OpExecutionContext, worlds: dg.ResourceParam[Worlds]) -> None:
    """Bring the object store back."""
    with explained(), worlds.open() as world:
        world.ensure_object_store()
    context.log.info("the object store answers")


start_stream = single_op_job(
    "start_stream",
    playbook_op(
        "start",
        PlannedConfig,
        _start,
        description="Declare the stream, record that it should run, and wait until it has caught up.",
    ),
    playbook="start",
    description="Starts a declared stream and waits until it has caught up. One that runs is left alone.",
    max_runtime_seconds=3600,
    priority=50,
)
stop_stream = single_op_job(
    "stop_stream",
    playbook_op(
        "stop",
        StopConfig,
        _stop,
        description="Ask the replicas to finish their epoch, ship a last snapshot and leave.",
    ),
    playbook="stop",
    description="Stops a stream: its replicas finish their epoch, ship a last snapshot and leave.",
    max_runtime_seconds=900,
    priority=50,
)
switch_tier = single_op_job(
    "switch_tier",
    playbook_op(
        "switch",
        SwitchConfig,
        _switch,
        run=_run_switch,
        plan=_plan_switch,
        description="Record another tier, and turn the secondary's switches, make before break.",
    ),
    playbook="switch",
    description="Gives a stream another tier and brings its replicas there one switch at a time, never "
    "weaker on the way than the weaker of the two. A run that is cut short is finished by the next.",
    max_runtime_seconds=3600,
    priority=50,
)
migrate_stream = single_op_job(
    "migrate_stream",
    playbook_op(
        "migrate",
        MigrateConfig,
        _migrate,
        description="Bring what is declared now to a running stream, by a target that takes over.",
    ),
    playbook="migrate",
    description="Brings what is declared now (resources, Spark conf, code) to a running stream: a target comes up "
    "beside the primary, and is handed the lease when it is ready; otherwise it is let go.",
    max_runtime_seconds=3600,
    priority=50,
)
snapshot_stream = single_op_job(
    "snapshot_stream",
    snapshot,
    playbook="snapshot",
    description="Ships a snapshot of a running stream now, whatever its checkpoint policy says.",
    max_runtime_seconds=900,
)
ensure_object_store = single_op_job(
    "ensure_object_store",
    ensure,
    playbook="ensure_object_store",
    description="Starts the embedded object store if it should run and does not.",
    max_runtime_seconds=300,
    priority=90,
)
