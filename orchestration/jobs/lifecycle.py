"""The jobs that start, stop, switch, migrate and snapshot a stream, from the UI or a shell."""

from collections.abc import Sequence
from typing import Any

import dagster as dg
from pydantic import Field

from holdfast.assets.project_resource import ProjectResource, dagster_errors
from holdfast.assets.tiers import coverage_metadata
from holdfast.ft_policies import quantities
from holdfast.ft_policies.playbooks.recover.migration import Protocol
from holdfast.ft_policies.tiers import Tier
from holdfast.ft_policies.timings import LEAVE_WITHIN_SECONDS, SNAPSHOT_WITHIN_SECONDS
from holdfast.observation.coverage import coverage_of
from holdfast.observation.status import observe_stream
from holdfast.orchestration.jobs.base import (
    PlannedConfig,
    StreamConfig,
    build_job,
    build_op,
    show_plan,
    show_steps,
    tag_stream,
)
from holdfast.orchestration.jobs.choices import ProtocolChoice, TierChoice
from holdfast.orchestration.playbooks.lifecycle import Stop, SwitchTier, snapshot_now
from holdfast.orchestration.playbooks.migrate import WITHIN_SECONDS, Migrate, MigrationRequest
from holdfast.orchestration.playbooks.recover import Start
from holdfast.resources.project import Project


class StopConfig(PlannedConfig):
    """The stream to stop, and how long its replicas may take."""

    patience_seconds: float = Field(
        default=LEAVE_WITHIN_SECONDS,
        ge=0.0,
        description="How long a replica may take to finish its epoch and ship a snapshot before it is killed.",
    )


class SwitchConfig(PlannedConfig):
    """The stream to switch, its new tier, and why."""

    tier: TierChoice = Field(description="The new tier.")
    why: str = Field(
        default="requested in Dagster", description="The reason, for the history of tiers."
    )


class MigrateConfig(PlannedConfig):
    """The stream to migrate to its current declaration, and how."""

    protocol: ProtocolChoice = Field(
        default=ProtocolChoice(Protocol.INTERRUPTION_FREE.value),
        description="How the target gets the lease.",
    )
    within_seconds: float = Field(
        default=WITHIN_SECONDS,
        ge=1.0,
        description="The migration is rolled back if the target has not caught up by then.",
    )
    may_differ: bool = Field(
        default=False, description="Accept that the new code computes another output for an epoch."
    )
    again: bool = Field(
        default=False,
        description="Migrate even if the declaration is the same: the code has changed.",
    )
    why: str = Field(
        default="requested in Dagster", description="The reason, for the history of migrations."
    )

    def request(self) -> MigrationRequest:
        return MigrationRequest(
            protocol=Protocol(self.protocol.value),
            within_seconds=self.within_seconds,
            may_differ=self.may_differ,
            again=self.again,
            why=self.why,
        )


class SnapshotConfig(StreamConfig):
    """The stream to snapshot, and how long that may take."""

    patience_seconds: float = Field(
        default=SNAPSHOT_WITHIN_SECONDS, ge=0.0, description="How long the snapshot may take."
    )


def _start(project: Project, config: PlannedConfig, run: str) -> Start:
    return Start(project, config.stream, run)


def _stop(project: Project, config: StopConfig, run: str) -> Stop:
    return Stop(project, config.stream, run, patience_seconds=config.patience_seconds)


def _switch(project: Project, config: SwitchConfig, run: str) -> SwitchTier:
    tier = Tier(config.tier.value)
    return SwitchTier(project, config.stream, run, tier=tier, why=config.why)


def _migrate(project: Project, config: MigrateConfig, run: str) -> Migrate:
    return Migrate(project, config.stream, run, request=config.request())


def _run_switch(context: dg.OpExecutionContext, switch: SwitchTier) -> dict[str, Any]:
    return {**show_steps(context, switch), **_coverage(context, switch)}


def _plan_switch(context: dg.OpExecutionContext, switch: SwitchTier) -> dict[str, Any]:
    return {**show_plan(context, switch), **_coverage(context, switch)}


def _coverage(context: dg.OpExecutionContext, switch: SwitchTier) -> dict[str, Any]:
    """Log and return which tier the replicas cover now."""
    coverage = coverage_of(observe_stream(switch.project, switch.stream))
    context.log.info("%s: %s", switch.stream, coverage.reason)
    return dict(coverage_metadata(coverage))


@dg.op(description="Request a snapshot from the primary and wait until it is in the object store.")
def snapshot(
    context: dg.OpExecutionContext,
    config: SnapshotConfig,
    projects: dg.ResourceParam[ProjectResource],
) -> None:
    tag_stream(context, config.stream)
    with dagster_errors(), projects.open() as project:
        row = snapshot_now(project, config.stream, patience_seconds=config.patience_seconds)
    if row is None:
        context.log.warning(
            "there is no snapshot of %s: it has committed no epoch yet", config.stream
        )
        return
    context.log.info(
        "%s: %s new, %s", row.id, quantities.size(row.new_bytes), quantities.seconds(row.seconds)
    )
    context.add_output_metadata(
        {"snapshot": row.id, "epoch": row.epoch, "new_bytes": row.new_bytes}
    )


@dg.op(description="Start the embedded object store, unless it answers already.")
def ensure(context: dg.OpExecutionContext, projects: dg.ResourceParam[ProjectResource]) -> None:
    with dagster_errors(), projects.open() as project:
        project.ensure_object_store()
    context.log.info("the object store answers")


def start_stream(streams: Sequence[str]) -> dg.JobDefinition:
    """The job that starts one of these streams."""
    return build_job(
        "start_stream",
        build_op(
            "start",
            PlannedConfig,
            _start,
            streams=streams,
            description="Declare the stream, record that it should run, and wait until it has caught up.",
        ),
        playbook="start",
        description="Starts a declared stream and waits until it has caught up. A running stream is not changed.",
        max_runtime_seconds=3600,
        priority=50,
    )


def stop_stream(streams: Sequence[str]) -> dg.JobDefinition:
    """The job that stops one of these streams."""
    return build_job(
        "stop_stream",
        build_op(
            "stop",
            StopConfig,
            _stop,
            streams=streams,
            description="Request each replica to finish its epoch, ship a last snapshot and exit.",
        ),
        playbook="stop",
        description="Stops a stream: its replicas finish their epoch, ship a last snapshot and exit.",
        max_runtime_seconds=900,
        priority=50,
    )


switch_tier = build_job(
    "switch_tier",
    build_op(
        "switch",
        SwitchConfig,
        _switch,
        run=_run_switch,
        plan=_plan_switch,
        description="Record the new tier, and turn the switches of the secondary, make before break.",
    ),
    playbook="switch",
    description="Switches a stream to another tier, one switch of its secondary at a time, never weaker on the "
    "way than the weaker of the two tiers. The next run finishes one that was interrupted.",
    max_runtime_seconds=3600,
    priority=50,
)


def migrate_stream(streams: Sequence[str]) -> dg.JobDefinition:
    """The job that migrates one of these streams."""
    return build_job(
        "migrate_stream",
        build_op(
            "migrate",
            MigrateConfig,
            _migrate,
            streams=streams,
            description="Migrate a running stream to its current declaration, by a target that takes over.",
        ),
        playbook="migrate",
        description="Migrates a running stream to its current declaration (resources, Spark conf, code): a target starts "
        "beside the primary and gets the lease when it has caught up; otherwise the migration is rolled back.",
        max_runtime_seconds=3600,
        priority=50,
    )


snapshot_stream = build_job(
    "snapshot_stream",
    snapshot,
    playbook="snapshot",
    description="Ships a snapshot of a running stream now, independent of its checkpoint policy.",
    max_runtime_seconds=900,
)
ensure_object_store = build_job(
    "ensure_object_store",
    ensure,
    playbook="ensure_object_store",
    description="Starts the embedded object store if it should run and does not answer.",
    max_runtime_seconds=300,
    priority=90,
)
