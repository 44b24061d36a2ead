"""The jobs for drills: proving a snapshot, and injecting a fault into a live stream."""

from typing import Any

import dagster as dg
from pydantic import Field

from holdfast.assets.keys import snapshots_key
from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.playbooks.drill import CUT_OFF_SECONDS, Fault
from holdfast.orchestration.jobs.base import (
    PlannedConfig,
    build_job,
    build_op,
    report,
    timeline_table,
)
from holdfast.orchestration.jobs.choices import FaultChoice
from holdfast.orchestration.playbooks.drill.drill import Drill
from holdfast.orchestration.playbooks.drill.outcome import DrillOutcome
from holdfast.orchestration.playbooks.prove import Prove
from holdfast.resources.project import Project


class ProveConfig(PlannedConfig):
    """The snapshot to prove."""

    snapshot: str = Field(
        default="", description="The id of a snapshot; without one, the newest that can be proven."
    )


class DrillConfig(PlannedConfig):
    """The stream to drill, and the fault."""

    fault: FaultChoice = Field(
        default=FaultChoice(Fault.KILL.value), description="What is done to the primary."
    )
    cut_off_seconds: float = Field(
        default=CUT_OFF_SECONDS, ge=1.0, description="How long the fault cut_off lasts."
    )
    beyond_budget: bool = Field(
        default=False,
        description="Drill even if the budget of disturbances of the stream is used up.",
    )


def _prove(project: Project, config: ProveConfig, run: str) -> Prove:
    return Prove(project, config.stream, run, snapshot=config.snapshot or None)


def _run_prove(context: dg.OpExecutionContext, prove: Prove) -> dict[str, Any]:
    row = prove.row()
    prove.snapshot = row.id
    done = list(report(context, prove))
    proven: dict[str, str | int | float] = {
        "snapshot": row.id,
        "epoch": row.epoch,
        "proven_in_seconds": sum(step.seconds for step in done),
    }
    context.log_event(dg.AssetObservation(snapshots_key(prove.stream), metadata=proven))
    return {"steps": timeline_table(done), **proven}


def _drill(project: Project, config: DrillConfig, run: str) -> Drill:
    return Drill(
        project,
        config.stream,
        run,
        fault=Fault(config.fault.value),
        cut_off_seconds=config.cut_off_seconds,
        beyond_budget=config.beyond_budget,
    )


def _run_drill(context: dg.OpExecutionContext, drill: Drill) -> dict[str, Any]:
    """Run a drill; a recovery that misses the objective fails the run."""
    done = list(report(context, drill))
    outcome = done[-1].result
    assert isinstance(outcome, DrillOutcome), "a drill ends with its report"  # noqa: S101
    context.add_output_metadata({"steps": timeline_table(done), "outcome": outcome.sentence})
    if not outcome.held:
        raise PermanentError(
            f"{drill.stream} missed its objective: {outcome.sentence}",
            hint="choose a stronger tier or mode `auto`, which counts the samples of this drill already",
        )
    return {}


prove_snapshot = build_job(
    "prove_snapshot",
    build_op(
        "prove",
        ProveConfig,
        _prove,
        run=_run_prove,
        description="Compute the epoch after a snapshot again, and compare it with the ledger.",
    ),
    playbook="restore_drill",
    description="Proves a snapshot: restores it into a scratch folder, computes the next epoch with the "
    "query of the stream without sending it, and compares the output with the ledger.",
    max_runtime_seconds=1800,
)
drill_stream = build_job(
    "drill_stream",
    build_op(
        "drill",
        DrillConfig,
        _drill,
        run=_run_drill,
        description="Inject a fault into the primary of a live stream, and time its recovery.",
    ),
    playbook="drill",
    description="The drill: injects a fault into the primary of a healthy stream, waits for its recovery, restores "
    "its redundancy, and compares the recovery time with the prediction and the objective.",
    max_runtime_seconds=3600,
)
