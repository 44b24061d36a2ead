"""The job that restores a stream to a past epoch, in place or as a fork."""

from collections.abc import Sequence
from typing import Any

import dagster as dg
from pydantic import Field

from holdfast.orchestration.jobs.base import (
    PlannedConfig,
    build_job,
    build_op,
    plan_table,
    show_plan,
    show_steps,
)
from holdfast.orchestration.playbooks.restore.fork import Fork
from holdfast.orchestration.playbooks.restore.point import RestoreTarget, parse_time, point_numbers
from holdfast.orchestration.playbooks.restore.restore import Restore, RestorePreview
from holdfast.resources.project import Project


class RestoreConfig(PlannedConfig):
    """The stream to restore, and its target: one of `epoch`, `at` and `snapshot`."""

    epoch: int = Field(default=-1, ge=-1, description="Restore to the state after this epoch.")
    at: str = Field(
        default="",
        description="Restore to the last epoch committed by this time: ISO 8601, UTC without a zone.",
    )
    snapshot: str = Field(default="", description="Restore to the epoch of this snapshot.")
    fork: str = Field(
        default="", description="Fork under this name instead; the original is only read."
    )
    output: str = Field(default="", description="The output path of the fork.")
    snapshots_from: str = Field(
        default="",
        description="Take the snapshot from this place of configs/holdfast.yaml.",
    )
    keep_output: bool = Field(
        default=False,
        description="Leave the output as it is: for a sink of your own, which Holdfast cannot roll back.",
    )
    why: str = Field(
        default="requested in Dagster", description="The reason, for the history of the stream."
    )

    def target(self) -> RestoreTarget:
        return RestoreTarget(
            epoch=None if self.epoch < 0 else self.epoch,
            at=parse_time(self.at) if self.at else None,
            snapshot=self.snapshot or None,
            place=self.snapshots_from or None,
        )


def _restore_or_fork(project: Project, config: RestoreConfig, run: str) -> Restore | Fork:
    target = config.target()
    if config.fork:
        output = config.output or None
        return Fork(project, config.stream, run, into=config.fork, target=target, output=output)
    return Restore(
        project,
        config.stream,
        run,
        target=target,
        why=config.why,
        keep_output=config.keep_output,
    )


def _run(context: dg.OpExecutionContext, playbook: Restore | Fork) -> dict[str, Any]:
    if isinstance(playbook, Fork):
        return {**show_steps(context, playbook), **_fork_numbers(playbook)}
    numbers = _numbers(playbook.look_ahead())
    return {**numbers, **show_steps(context, playbook)}


def _plan(context: dg.OpExecutionContext, playbook: Restore | Fork) -> dict[str, Any]:
    if isinstance(playbook, Fork):
        return {**show_plan(context, playbook), **_fork_numbers(playbook)}
    preview = playbook.look_ahead()
    return {**_numbers(preview), "plan": plan_table(context, preview.steps)}


def _numbers(preview: RestorePreview) -> dict[str, Any]:
    return {} if preview.point is None else point_numbers(preview.point)


def _fork_numbers(fork: Fork) -> dict[str, Any]:
    return {"epoch": fork.point.epoch, "snapshot": fork.point.snapshot_id}


def restore_stream(streams: Sequence[str]) -> dg.JobDefinition:
    """The job that restores or forks one of these streams."""
    return build_job(
        "restore_stream",
        build_op(
            "restore",
            RestoreConfig,
            _restore_or_fork,
            streams=streams,
            run=_run,
            plan=_plan,
            description="Restore state and output to a past epoch, and continue from there.",
        ),
        playbook="restore",
        description="Restores state and output of a stream to a past epoch (by epoch, time or snapshot) and lets it "
        "compute the later epochs again; or forks it there under a new name. The next run finishes one that was "
        "interrupted.",
        max_runtime_seconds=7200,
        priority=50,
    )
