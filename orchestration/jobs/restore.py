"""The job that takes a stream back to a past epoch, in place or as a fork."""

from typing import Any

import dagster as dg
from pydantic import Field

from holdfast.orchestration.jobs.base import (
    PlannedConfig,
    plan_table,
    playbook_op,
    show_plan,
    show_steps,
    single_op_job,
)
from holdfast.orchestration.playbooks.restore.fork import Fork
from holdfast.orchestration.playbooks.restore.point import RestoreTarget, parse_time, point_numbers
from holdfast.orchestration.playbooks.restore.restore import Restore, RestorePreview
from holdfast.resources.project import Project


class RestoreConfig(PlannedConfig):
    """Which stream to take back where to: one of `epoch`, `at` and `snapshot`."""

    epoch: int = Field(default=-1, ge=-1, description="Back to what it was after this epoch.")
    at: str = Field(default="", description="The last epoch by then: ISO 8601, UTC without a zone.")
    snapshot: str = Field(default="", description="The epoch of this snapshot.")
    fork: str = Field(default="", description="The name of a fork; the original is only read.")
    output: str = Field(default="", description="Where the fork's output goes.")
    snapshots_from: str = Field(
        default="", description="Take the snapshot from s3://bucket/prefix."
    )
    keep_output: bool = Field(
        default=False, description="For a sink of your own, which cannot be taken back."
    )
    why: str = Field(default="asked in Dagster", description="For the stream's history.")

    def target(self) -> RestoreTarget:
        """The requested point."""
        return RestoreTarget(
            epoch=None if self.epoch < 0 else self.epoch,
            at=parse_time(self.at) if self.at else None,
            snapshot=self.snapshot or None,
            place=self.snapshots_from or None,
        )


def _restore_or_fork(world: Project, config: RestoreConfig, run: str) -> Restore | Fork:
    target = config.target()
    if config.fork:
        output = config.output or None
        return Fork(world, config.stream, run, into=config.fork, target=target, output=output)
    return Restore(
        world,
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
    ahead = playbook.look_ahead()
    return {**_numbers(ahead), "plan": plan_table(context, ahead.steps)}


def _numbers(ahead: RestorePreview) -> dict[str, Any]:
    return {} if ahead.point is None else point_numbers(ahead.point)


def _fork_numbers(fork: Fork) -> dict[str, Any]:
    return {"epoch": fork.point.epoch, "snapshot": fork.point.snapshot_id}


restore_stream = single_op_job(
    "restore_stream",
    playbook_op(
        "restore",
        RestoreConfig,
        _restore_or_fork,
        run=_run,
        plan=_plan,
        description="Take state and output back to a past epoch, and go on from there.",
    ),
    playbook="restore",
    description="Takes state and output of a stream back to a past epoch (epoch, time or snapshot) and lets it "
    "compute the epochs since again; or forks it there under a new name. A run that is cut short is finished "
    "by the next.",
    max_runtime_seconds=7200,
    priority=50,
)
