"""The job that repairs a stream, from Dagster's UI."""

import dagster as dg
from pydantic import Field

from assets.doctor import judge
from assets.examination.examining import diagnosed
from assets.failures import explained
from assets.worlds import Worlds
from ft_policies.doctor.findings import RepairKind
from orchestration.asking import ALL, repair_named
from orchestration.jobs import StreamConfig
from orchestration.playbooks.repair import Repairing, repair_plan
from orchestration.reporting import (
    name_stream,
    playbook_tags,
    report,
    show_plan_of,
    timeline_table,
)


class RepairConfig(StreamConfig):
    """Which stream to repair, and how."""

    repair: str = Field(default=ALL, description=f"One of {ALL}, {', '.join(RepairKind)}.")
    deep: bool = Field(default=False, description="Read all bytes of all snapshots, too.")
    dry_run: bool = Field(default=True, description="Only say what would be done.")


@dg.op(description="Look for what is wrong with the stream, and mend it step by step.")
def repair(
    context: dg.OpExecutionContext, config: RepairConfig, worlds: dg.ResourceParam[Worlds]
) -> None:
    """Repair a stream."""
    name_stream(context, config.stream)
    with explained(), worlds.open() as world:
        chosen = repair_named(config.repair)
        found = diagnosed(world, config.stream, deep=config.deep)
        steps = repair_plan(found, chosen)
        plan = show_plan_of(context, [(type(step).__name__, step.does) for step in steps])
        if config.dry_run:
            context.add_output_metadata({"plan": plan})
        else:
            repairing = Repairing(
                world=world,
                stream=config.stream,
                run=context.run_id,
                chosen=chosen,
                deep=config.deep,
            )
            done = report(context, config.stream, repairing.steps())
            context.add_output_metadata({"steps": timeline_table(done)})
            found = diagnosed(world, config.stream, deep=config.deep)
    context.add_output_metadata(dict(judge(found.findings).metadata or {}))


@dg.job(
    description="Applies the doctor's repairs to a stream; what it removes is kept until somebody confirms or "
    "undoes the run with `holdfast doctor`. A dry run, unless told otherwise.",
    tags=playbook_tags("repair", max_runtime_seconds=3600),
    executor_def=dg.in_process_executor,
)
def repair_stream() -> None:
    """Repair one stream."""
    repair()
