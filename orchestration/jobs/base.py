"""Builds the Dagster op and job of any playbook, and reports its steps on the page of the run as they happen."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import dagster as dg
from pydantic import Field, create_model

from holdfast.assets.keys import stream_key
from holdfast.assets.project_resource import ProjectResource, dagster_errors
from holdfast.ft_policies import quantities
from holdfast.ft_policies.playbooks.base import Step, step_fields
from holdfast.orchestration.playbooks.base import StepDone, StreamPlaybook, journal_title
from holdfast.resources.project import Project

if TYPE_CHECKING:  # what `define_asset_job` returns; Dagster does not export the type
    from dagster._core.definitions.unresolved_asset_job_definition import (
        UnresolvedAssetJobDefinition,
    )

STREAM_TAG = "holdfast/stream"
PLAYBOOK_TAG = "holdfast/playbook"
CAUSE_TAG = "holdfast/cause"
INCIDENT_TAG = "holdfast/incident"
MAX_RUNTIME_TAG = "dagster/max_runtime"
PRIORITY_TAG = "dagster/priority"
QUEUE_TAG = "holdfast/queue"  # `dagster.yaml` limits the runs that have it
URGENT = 90
CHECKING_SECONDS = 3600


class StreamConfig(dg.Config):
    """The stream to act on."""

    stream: str = Field(description="The name of a declared stream, for example word_count.")


class PlannedConfig(StreamConfig):
    """The stream to act on, or to plan for."""

    dry_run: bool = Field(
        default=False,
        description="Only show the plan: each step and what it does. Nothing is changed.",
    )


Context: TypeAlias = dg.OpExecutionContext
Metadata: TypeAlias = dict[str, Any]
AnyPlaybook: TypeAlias = StreamPlaybook[Any, Any]
ConfigT = TypeVar("ConfigT", bound=PlannedConfig)
PlaybookT = TypeVar("PlaybookT", bound=AnyPlaybook)


def show_steps(context: Context, playbook: AnyPlaybook) -> Metadata:
    """Run a playbook; return its steps for the page of the run."""
    return {"steps": timeline_table(report(context, playbook))}


def show_plan(context: Context, playbook: AnyPlaybook) -> Metadata:
    """Plan a playbook; return the planned steps for the page of the run."""
    return {"plan": plan_table(context, playbook.plan())}


def build_op(
    name: str,
    config: type[ConfigT],
    build: Callable[[Project, ConfigT, str], PlaybookT],
    *,
    description: str,
    streams: Sequence[str] = (),
    run: Callable[[Context, PlaybookT], Metadata] = show_steps,
    plan: Callable[[Context, PlaybookT], Metadata] = show_plan,
) -> dg.OpDefinition:
    """Build an op that runs a playbook, or with `dry_run` only plans it.

    `build` makes the playbook from the config and the id of the run; `run` and `plan` are for a playbook
    whose run page shows more than its steps. With `streams` the launchpad offers these as choices and refuses
    others: not for a job that a sensor or a schedule requests, also for a stream that was declared since.
    """

    def compute(context: Context, config: Any, projects: dg.ResourceParam[ProjectResource]) -> None:
        tag_stream(context, config.stream)
        with dagster_errors(), projects.open() as project:
            playbook = build(project, config, context.run_id)
            metadata = plan(context, playbook) if config.dry_run else run(context, playbook)
        context.add_output_metadata({k: v for k, v in metadata.items() if v is not None})

    # Dagster makes the config schema from it.
    compute.__annotations__["config"] = offer_streams(config, streams) if streams else config
    return dg.op(name=name, description=description)(compute)


def offer_streams(config: type[ConfigT], streams: Sequence[str]) -> type[ConfigT]:
    """The same config, whose stream is one of these."""
    choices: Any = Literal[tuple(streams)]
    stream = (choices, Field(description="One of the declared streams."))
    return create_model(config.__name__, __base__=config, __doc__=config.__doc__, stream=stream)


def build_job(
    name: str,
    op: dg.OpDefinition,
    *,
    playbook: str,
    description: str,
    max_runtime_seconds: int,
    priority: int = 0,
) -> dg.JobDefinition:
    """Build a job with this op alone, which runs in the process of its run."""

    @dg.job(
        name=name,
        description=description,
        tags=playbook_tags(playbook, max_runtime_seconds=max_runtime_seconds, priority=priority),
        executor_def=dg.in_process_executor,
    )
    def job() -> None:
        op()

    return job


def playbook_tags(playbook: str, *, max_runtime_seconds: int, priority: int = 0) -> dict[str, str]:
    """The tags of a job: its playbook, the longest time of a run, and its priority in the queue.

    Recoveries and what they need (`URGENT`) wait for no other run; all others share a few places.
    """
    return {
        **({} if priority >= URGENT else {QUEUE_TAG: "limited"}),
        PLAYBOOK_TAG: playbook,
        MAX_RUNTIME_TAG: str(max_runtime_seconds),
        PRIORITY_TAG: str(priority),
    }


def tag_stream(context: Context, stream: str) -> None:
    """Tag the run with its stream, so that the UI can filter by it."""
    context.instance.add_run_tags(context.run_id, {STREAM_TAG: stream})


def report(context: Context, playbook: AnyPlaybook) -> Iterator[StepDone[Any]]:
    """Run a playbook; log each step when it is done, record it on the asset of the stream, and yield it."""
    for done in playbook.steps():
        name = title(done.step)
        result = {key: _to_metadata(value) for key, value in done.result.as_dict().items()}
        failure = done.result.failure
        took = quantities.seconds(done.seconds)
        if failure:
            context.log.error("✘ %s: %s: %s", name, took, failure)
        else:
            context.log.info("%s: %s %s", name, took, result or "")
        context.log_event(
            dg.AssetObservation(
                stream_key(playbook.stream),
                description=f"{name} took {took}",
                metadata={"step": name, "seconds": done.seconds, **result},
            )
        )
        yield done


def title(step: Step[Any]) -> str:
    """The title of a step: `TurnSwitch sync on`, or its name if it turns no switch."""
    return journal_title(step.name, step_fields(step))


def timeline_table(steps: Iterable[StepDone[Any]]) -> dg.TableMetadataValue:
    """The finished steps as a table for the page of the run."""
    rows = [
        dg.TableRecord(
            {
                "step": f"✘ {title(done.step)}" if done.result.failure else title(done.step),
                "seconds": round(done.seconds, 3),
                "result": done.result.failure
                or ", ".join(f"{name}={value}" for name, value in done.result.as_dict().items()),
            }
        )
        for done in steps
    ]
    return _table(rows, step="string", seconds="float", result="string")


def plan_table(context: Context, steps: Iterable[Step[Any]]) -> dg.TableMetadataValue:
    """Log each planned step, and return all of them as a table for the page of the run."""
    rows = []
    for number, step in enumerate(steps, 1):
        name, description = title(step), step.describe()
        context.log.info("%s. %s: %s", number, name, description)
        rows.append(dg.TableRecord({"step": name, "does": description}))
    return _table(rows, step="string", does="string")


def _table(rows: list[dg.TableRecord], **columns: str) -> dg.TableMetadataValue:
    schema = dg.TableSchema(columns=[dg.TableColumn(name, kind) for name, kind in columns.items()])
    return dg.MetadataValue.table(rows, schema)


def _to_metadata(value: object) -> str | int | float | bool:
    """Keep numbers, for plots; make text of the rest, since Dagster stores no enums."""
    return value if isinstance(value, int | float | bool) else str(value)


def build_check_job(
    name: str, selection: dg.AssetSelection, *, playbook: str, description: str
) -> "UnresolvedAssetJobDefinition":
    """Build a job that materializes and checks these assets, one after the other."""
    return dg.define_asset_job(
        name,
        selection=selection,
        description=description,
        tags=playbook_tags(playbook, max_runtime_seconds=CHECKING_SECONDS),
        executor_def=dg.in_process_executor,
    )


def request_scheduled_run(
    context: dg.ScheduleEvaluationContext, stream: str, op: str, config: dg.Config
) -> dg.RunRequest:
    """Request a run for one stream; two requests for the same time give one run."""
    at = context.scheduled_execution_time.isoformat()
    return dg.RunRequest(
        run_key=f"{stream}-{at}",
        run_config=dg.RunConfig(ops={op: config}),
        tags={STREAM_TAG: stream, CAUSE_TAG: "schedule"},
    )


def build_schedule(
    name: str, cron: str, job: "UnresolvedAssetJobDefinition | dg.JobDefinition", description: str
) -> dg.ScheduleDefinition:
    """Build a schedule (UTC) that is on by default."""
    return dg.ScheduleDefinition(
        name=name,
        cron_schedule=cron,
        job=job,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=description,
    )
