"""Showing a playbook's steps on the page of a Dagster run, as they happen."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.keys import stream_key
from ft_policies.recovery import turn_told
from orchestration import plans
from orchestration.playbooks.performing import Performed

if TYPE_CHECKING:  # what `define_asset_job` gives; Dagster does not export its name
    from dagster._core.definitions.unresolved_asset_job_definition import (
        UnresolvedAssetJobDefinition,
    )

STREAM_TAG = "holdfast/stream"
PLAYBOOK_TAG = "holdfast/playbook"
CAUSE_TAG = "holdfast/cause"
INCIDENT_TAG = "holdfast/incident"
MAX_RUNTIME_TAG = "dagster/max_runtime"
PRIORITY_TAG = "dagster/priority"
CHECKING_SECONDS = 3600


def playbook_tags(playbook: str, *, max_runtime_seconds: int, priority: int = 0) -> dict[str, str]:
    """The tags of a job: its playbook, how long a run may take, and who goes first in the queue."""
    return {
        PLAYBOOK_TAG: playbook,
        MAX_RUNTIME_TAG: str(max_runtime_seconds),
        PRIORITY_TAG: str(priority),
    }


def name_stream(context: dg.OpExecutionContext, stream: str) -> None:
    """Tag the run with its stream, so that people find it."""
    context.instance.add_run_tags(context.run_id, {STREAM_TAG: stream})


def report(
    context: dg.OpExecutionContext, stream: str, steps: Iterable[Performed[Any]]
) -> list[Performed[Any]]:
    """Log each step when it is done and note it on the stream's asset; all of them in the end."""
    done: list[Performed[Any]] = []
    for performed in steps:
        done.append(performed)
        name = _name(performed)
        found = {key: _shown(value) for key, value in performed.found.items()}
        context.log.info("%s: %.2f s %s", name, performed.seconds, found or "")
        context.log_event(
            dg.AssetObservation(
                stream_key(stream),
                description=f"{name} took {performed.seconds:.2f} s",
                metadata={"step": name, "seconds": performed.seconds, **found},
            )
        )
    return done


def step_told(step: str, about: Mapping[str, Any]) -> str:
    """`TurnSwitch sync on`; a step that turns no switch by its name alone."""
    return f"{step} {turn_told(about) or ''}".rstrip()


def timeline_table(steps: Iterable[Performed[Any]]) -> dg.TableMetadataValue:
    """The steps as a table for the run's page."""
    rows = [
        dg.TableRecord(
            {
                "step": _name(one),
                "seconds": round(one.seconds, 3),
                "found": ", ".join(f"{key}={value}" for key, value in one.found.items()),
            }
        )
        for one in steps
    ]
    return _table(rows, step="string", seconds="float", found="string")


def show_plan(
    context: dg.OpExecutionContext, steps: Iterable[plans.AnyStep]
) -> dg.TableMetadataValue:
    """Log each step that would be taken, and give all of them as a table for the run's page."""
    named = [(step_told(type(step).__name__, asdict(step)), plans.does(step)) for step in steps]
    return show_plan_of(context, named)


def show_plan_of(
    context: dg.OpExecutionContext, steps: Iterable[tuple[str, str]]
) -> dg.TableMetadataValue:
    """The same for steps of any playbook: each with its name and what it does."""
    rows = []
    for number, (name, does) in enumerate(steps, 1):
        context.log.info("%s. %s: %s", number, name, does)
        rows.append(dg.TableRecord({"step": name, "does": does}))
    return _table(rows, step="string", does="string")


def _table(rows: list[dg.TableRecord], **columns: str) -> dg.TableMetadataValue:
    schema = dg.TableSchema(columns=[dg.TableColumn(name, kind) for name, kind in columns.items()])
    return dg.MetadataValue.table(rows, schema)


def _name(performed: Performed[Any]) -> str:
    return step_told(performed.name, asdict(performed.step))


def _shown(value: object) -> str | int | float | bool:
    """Numbers stay numbers, for plots; the rest becomes plain text, since Dagster keeps no enums."""
    return value if isinstance(value, int | float | bool) else str(value)


def checking_job(
    name: str, selection: dg.AssetSelection, *, playbook: str, description: str
) -> "UnresolvedAssetJobDefinition":
    """A job that makes and checks these assets, one after the other."""
    return dg.define_asset_job(
        name,
        selection=selection,
        description=description,
        tags=playbook_tags(playbook, max_runtime_seconds=CHECKING_SECONDS),
        executor_def=dg.in_process_executor,
    )


def scheduled_run(
    context: dg.ScheduleEvaluationContext, stream: str, op: str, config: dg.Config
) -> dg.RunRequest:
    """A run for one stream; asking twice for the same time gives one run."""
    at = context.scheduled_execution_time.isoformat()
    return dg.RunRequest(
        run_key=f"{stream}-{at}",
        run_config=dg.RunConfig(ops={op: config}),
        tags={STREAM_TAG: stream, CAUSE_TAG: "schedule"},
    )


def by_the_clock(
    name: str, cron: str, job: "UnresolvedAssetJobDefinition | dg.JobDefinition", description: str
) -> dg.ScheduleDefinition:
    """Runs a job at these times (UTC), from the first start on."""
    return dg.ScheduleDefinition(
        name=name,
        cron_schedule=cron,
        job=job,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=description,
    )
