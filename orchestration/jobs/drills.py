"""Drills: rehearsing on purpose what a failure would ask for."""

from typing import Any

import dagster as dg
from pydantic import Field

from holdfast.assets.keys import snapshots_key
from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.playbooks.drill import CUT_OFF_SECONDS, Fault
from holdfast.orchestration.jobs.base import (
    PlannedConfig,
    playbook_op,
    report,
    single_op_job,
    timeline_table,
)
from holdfast.orchestration.parsing import parse_enum
from holdfast.orchestration.playbooks.drill import Drill
from holdfast.orchestration.playbooks.drill_outcome import DrillOutcome
from holdfast.orchestration.playbooks.prove import Prove
from holdfast.resources.project import Project


class ProveConfig(PlannedConfig):
    """Which snapshot to prove."""

    snapshot: str = Field(default="", description="Its id; the newest that can be, if left out.")


class DrillConfig(PlannedConfig):
    """Which stream to drill, and how."""

    fault: str = Field(default=Fault.KILL.value, description=f"One of {', '.join(Fault)}.")
    cut_off_seconds: float = Field(
        default=CUT_OFF_SECONDS, ge=1.0, description="How long the fault cut_off lasts."
    )
    beyond_budget: bool = Field(
        default=False, description="Even if the stream was disturbed often enough lately."
    )


def _prove(world: Project, config: ProveConfig, run: str) -> Prove:
    return Prove(world, config.stream, run, snapshot=config.snapshot or None)


def _run_prove(context: dg.OpExecutionContext, prove: Prove) -> dict[str, Any]:
    row = prove.row()
    prove.snapshot = row.id
    done = report(context, prove)
    proven: dict[str, str | int | float] = {
        "snapshot": row.id,
        "epoch": row.epoch,
        "proven_in_seconds": sum(step.seconds for step in done),
    }
    context.log_event(dg.AssetObservation(snapshots_key(prove.stream), metadata=proven))
    return {"steps": timeline_table(done), **proven}


def _drill(world: Project, config: DrillConfig, run: str) -> Drill:
    return Drill(
        world,
        config.stream,
        run,
        fault=parse_enum(Fault, config.fault),
        cut_off_seconds=config.cut_off_seconds,
        beyond_budget=config.beyond_budget,
    )


def _run_drill(context: dg.OpExecutionContext, drill: Drill) -> dict[str, Any]:
    """A recovery that misses the objective is a failure of the run."""
    done = report(context, drill)
    outcome = done[-1].result
    assert isinstance(outcome, DrillOutcome), "a drill ends with its report"  # noqa: S101
    context.add_output_metadata({"steps": timeline_table(done), "outcome": outcome.sentence})
    if not outcome.held:
        raise PermanentError(
            f"{drill.stream} was not back in time: {outcome.sentence}",
            hint="choose a stronger tier, or mode auto; the samples of this drill count already",
        )
    return {}


prove_snapshot = single_op_job(
    "prove_snapshot",
    playbook_op(
        "prove",
        ProveConfig,
        _prove,
        run=_run_prove,
        description="Go on from a snapshot for one epoch, and compare with what was committed.",
    ),
    playbook="restore_drill",
    description="The restore drill: restores a snapshot into a scratch folder, lets the stream's own query go "
    "on from it for one epoch without sending, and compares the output with the ledger.",
    max_runtime_seconds=1800,
)
drill_stream = single_op_job(
    "drill_stream",
    playbook_op(
        "drill",
        DrillConfig,
        _drill,
        run=_run_drill,
        description="Inject a fault into the primary of a live stream, and time its recovery.",
    ),
    playbook="drill",
    description="The drill: injects a fault into the primary of a healthy stream, watches it come back, restores "
    "its redundancy, and compares what it took with the prediction and the objective.",
    max_runtime_seconds=3600,
)
