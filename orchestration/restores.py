"""The job that takes a stream back to a past epoch, in place or as a fork."""

from collections.abc import Iterator
from typing import Any

import dagster as dg
from pydantic import Field

from assets.failures import explained
from assets.worlds import Worlds
from orchestration.jobs import PlannedConfig
from orchestration.playbooks.fork import fork, fork_plan
from orchestration.playbooks.performing import Performed
from orchestration.playbooks.restore import restore, restore_plan
from orchestration.playbooks.restore_point import Asked, moment
from orchestration.reporting import (
    name_stream,
    playbook_tags,
    report,
    show_plan_of,
    timeline_table,
)
from orchestration.restore_plans import does, fork_facts, point_facts
from resources.project import Project


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

    def asked(self) -> Asked:
        """The point that is meant."""
        return Asked(
            epoch=None if self.epoch < 0 else self.epoch,
            at=moment(self.at) if self.at else None,
            snapshot=self.snapshot or None,
            place=self.snapshots_from or None,
        )


@dg.op(
    name="restore",
    description="Take state and output back to a past epoch, and go on from there.",
)
def restore_op(
    context: dg.OpExecutionContext, config: RestoreConfig, worlds: dg.ResourceParam[Worlds]
) -> None:
    """Restore a stream, or fork it."""
    name_stream(context, config.stream)
    with explained(), worlds.open() as world:
        shown, steps = _plan(world, config)
        if config.dry_run:
            shown["plan"] = show_plan_of(context, [(type(s).__name__, does(s)) for s in steps])
        else:
            done = report(context, config.stream, _steps(world, config, context.run_id))
            shown["steps"] = timeline_table(done)
    context.add_output_metadata({name: value for name, value in shown.items() if value is not None})


@dg.job(
    description="Takes state and output of a stream back to a past epoch (epoch, time or snapshot) and lets it "
    "compute the epochs since again; or forks it there under a new name. A run that is cut short is finished "
    "by the next.",
    tags=playbook_tags("restore", max_runtime_seconds=7200, priority=50),
    executor_def=dg.in_process_executor,
)
def restore_stream() -> None:
    """Restore one stream."""
    restore_op()


def _plan(world: Project, config: RestoreConfig) -> tuple[dict[str, Any], list[Any]]:
    """The steps to come, and what they mean in numbers."""
    asked = config.asked()
    if config.fork:
        output = config.output or None
        point, steps = fork_plan(world, config.stream, asked, name=config.fork, output=output)
        return fork_facts(point), list(steps)
    plan = restore_plan(world, config.stream, asked, keep_output=config.keep_output)
    return {} if plan.point is None else point_facts(plan.point), list(plan.steps)


def _steps(world: Project, config: RestoreConfig, run: str) -> Iterator[Performed[Any]]:
    asked = config.asked()
    if config.fork:
        output = config.output or None
        return fork(world, config.stream, asked, run, name=config.fork, output=output)
    keep = config.keep_output
    return restore(world, config.stream, asked, run, why=config.why, keep_output=keep)
