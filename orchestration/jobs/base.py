"""One Dagster op and job for any playbook: its steps on the page of the run, as they happen."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import dagster as dg
from pydantic import Field

from holdfast.assets.keys import stream_key
from holdfast.assets.project_resource import Worlds, explained
from holdfast.ft_policies.playbooks.base import Step, step_fields
from holdfast.ft_policies.playbooks.recover.steps import switch_change
from holdfast.orchestration.playbooks.base import StepDone, StreamPlaybook
from holdfast.resources.project import Project

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


class StreamConfig(dg.Config):
    """Which stream to act on."""

    stream: str = Field(description="A declared stream, for example word_count.")


class PlannedConfig(StreamConfig):
    """Which stream to act on, or only to plan for."""

    dry_run: bool = Field(
        default=False, description="Show the plan with what each step does, and change nothing."
    )


Context: TypeAlias = dg.OpExecutionContext
Metadata: TypeAlias = dict[str, Any]
AnyPlaybook: TypeAlias = StreamPlaybook[Any, Any]
ConfigT = TypeVar("ConfigT", bound=PlannedConfig)
PlaybookT = TypeVar("PlaybookT", bound=AnyPlaybook)


def show_steps(context: Context, playbook: AnyPlaybook) -> Metadata:
    """Run a playbook; its steps for the page of the run."""
    return {"steps": timeline_table(report(context, playbook))}


def show_plan(context: Context, playbook: AnyPlaybook) -> Metadata:
    """What a playbook would do, for the page of the run."""
    return {"plan": plan_table(context, playbook.plan())}


def playbook_op(
    name: str,
    config: type[ConfigT],
    build: Callable[[Project, ConfigT, str], PlaybookT],
    *,
    description: str,
    run: Callable[[Context, PlaybookT], Metadata] = show_steps,
    plan: Callable[[Context, PlaybookT], Metadata] = show_plan,
) -> dg.OpDefinition:
    """An op that runs a playbook, or with `dry_run` only plans it.

    `build` makes the playbook from the run's config and id; `run` and `plan` are for a playbook whose
    run page shows more than its steps.
    """

    def compute(context: Context, config: Any, worlds: dg.ResourceParam[Worlds]) -> None:
        name_stream(context, config.stream)
        with explained(), worlds.open() as world:
            playbook = build(world, config, context.run_id)
            shown = plan(context, playbook) if config.dry_run else run(context, playbook)
        context.add_output_metadata({key: each for key, each in shown.items() if each is not None})

    compute.__annotations__["config"] = config  # Dagster makes the config schema from it
    return dg.op(name=name, description=description)(compute)


def single_op_job(
    name: str,
    op: dg.OpDefinition,
    *,
    playbook: str,
    description: str,
    max_runtime_seconds: int,
    priority: int = 0,
) -> dg.JobDefinition:
    """A job that does nothing but this op, in the process of its run."""

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
    """The tags of a job: its playbook, how long a run may take, and its place in the queue."""
    return {
        PLAYBOOK_TAG: playbook,
        MAX_RUNTIME_TAG: str(max_runtime_seconds),
        PRIORITY_TAG: str(priority),
    }


def name_stream(context: Context, stream: str) -> None:
    """Tag the run with its stream, so that it can be found."""
    context.instance.add_run_tags(context.run_id, {STREAM_TAG: stream})


def report(context: Context, playbook: AnyPlaybook) -> list[StepDone[Any]]:
    """Run a playbook; log each step when it is done, and record it on the stream's asset."""
    finished: list[StepDone[Any]] = []
    for done in playbook.steps():
        finished.append(done)
        name = title(done.step)
        result = {key: _plain(value) for key, value in done.result.as_dict().items()}
        context.log.info("%s: %.2f s %s", name, done.seconds, result or "")
        context.log_event(
            dg.AssetObservation(
                stream_key(playbook.stream),
                description=f"{name} took {done.seconds:.2f} s",
                metadata={"step": name, "seconds": done.seconds, **result},
            )
        )
    return finished


def title(step: Step[Any]) -> str:
    """`TurnSwitch sync on`; a step that turns no switch by its name alone."""
    return journal_title(step.name, step_fields(step))


def journal_title(step: str, detail: Mapping[str, Any]) -> str:
    """The same for a line of the journal."""
    return f"{step} {switch_change(detail) or ''}".rstrip()


def timeline_table(steps: Iterable[StepDone[Any]]) -> dg.TableMetadataValue:
    """The steps as a table for the run's page."""
    rows = [
        dg.TableRecord(
            {
                "step": title(done.step),
                "seconds": round(done.seconds, 3),
                "found": ", ".join(
                    f"{name}={value}" for name, value in done.result.as_dict().items()
                ),
            }
        )
        for done in steps
    ]
    return _table(rows, step="string", seconds="float", found="string")


def plan_table(context: Context, steps: Iterable[Step[Any]]) -> dg.TableMetadataValue:
    """Log each step that would be taken, and give all of them as a table for the run's page."""
    rows = []
    for number, step in enumerate(steps, 1):
        name, does = title(step), step.describe()
        context.log.info("%s. %s: %s", number, name, does)
        rows.append(dg.TableRecord({"step": name, "does": does}))
    return _table(rows, step="string", does="string")


def _table(rows: list[dg.TableRecord], **columns: str) -> dg.TableMetadataValue:
    schema = dg.TableSchema(columns=[dg.TableColumn(name, kind) for name, kind in columns.items()])
    return dg.MetadataValue.table(rows, schema)


def _plain(value: object) -> str | int | float | bool:
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
