"""The maintenance jobs: pruning, compacting and repairing a stream, hashing its table again."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import dagster as dg
from pydantic import Field

from holdfast.assets.doctor import judge
from holdfast.assets.keys import output_key, snapshots_key
from holdfast.assets.project_resource import ProjectResource, dagster_errors
from holdfast.ft_policies import quantities
from holdfast.ft_policies.doctor.findings import RepairKind
from holdfast.ft_policies.errors import HoldfastError, PermanentError, TransientError
from holdfast.ft_policies.snapshots import RetentionVerdict
from holdfast.observation.doctor.examine import diagnose_stream
from holdfast.orchestration.jobs.base import (
    PlannedConfig,
    StreamConfig,
    build_job,
    build_op,
    show_plan,
    show_steps,
    tag_stream,
)
from holdfast.orchestration.jobs.dagster_history import DagsterLimits, prune_dagster
from holdfast.orchestration.parsing import ALL, parse_repair
from holdfast.orchestration.playbooks.compact import Compact
from holdfast.orchestration.playbooks.repair.repair import Repair
from holdfast.orchestration.retention import (
    prune_epochs,
    prune_file_names,
    prune_orphans,
    prune_records,
    rotate_logs,
    sample_growth,
)
from holdfast.resources.project import Project
from holdfast.resources.vault import catalogue
from holdfast.resources.vault.records import Pruned


class PruneConfig(dg.Config):
    """The streams whose snapshots to prune."""

    streams: list[str] = Field(
        default_factory=list, description="Declared streams; empty means all."
    )
    dry_run: bool = Field(default=False, description="Only report what would be dropped.")


@dg.op(
    description="Drop the snapshots that retention does not keep, and report why it keeps the others."
)
def prune(
    context: dg.OpExecutionContext, config: PruneConfig, projects: dg.ResourceParam[ProjectResource]
) -> None:
    """Prune each stream, then the records of the whole project; a stream that fails does not hold up the others."""
    failures = _StreamFailures(context)
    with dagster_errors(), projects.open() as project:
        for name in _chosen_streams(project, config.streams):
            with failures.collect(name):
                _prune_stream(context, project, name, dry_run=config.dry_run)
        counts = {} if config.dry_run else _prune_all(context, project)
        pruned_counts = {f"{kind}_pruned": count for kind, count in counts.items()}
        context.add_output_metadata({**pruned_counts, "dry_run": config.dry_run})
        failures.raise_if_any("pruned")


def _chosen_streams(project: Project, names: Sequence[str]) -> list[str]:
    """The named streams, or all; raises if one is not declared."""
    return [project.config.stream(name).name for name in names] or sorted(project.config.streams)


class _StreamFailures:
    """What failed, by stream: a job over many streams goes on, and fails at its end."""

    def __init__(self, context: dg.OpExecutionContext) -> None:
        self._context = context
        self._errors: dict[str, Exception] = {}

    @contextmanager
    def collect(self, stream: str) -> Iterator[None]:
        """Keep the first error of this stream for the end."""
        try:
            yield
        except Exception as error:  # a damaged table raises what its library raises
            self._context.log.warning("%s failed: %s", stream, error, exc_info=error)
            self._errors.setdefault(stream, error)

    def raise_if_any(self, done: str) -> None:
        """Raise one error that names the streams and causes; it is transient if trying again helps one of them."""
        if not self._errors:
            return
        causes = "; ".join(
            f"{stream}: {error if isinstance(error, HoldfastError) else repr(error)}"
            for stream, error in self._errors.items()
        )
        errors = list(self._errors.values())
        hints = [error.hint for error in errors if isinstance(error, HoldfastError) and error.hint]
        is_transient = any(isinstance(error, TransientError) for error in errors)
        raise (TransientError if is_transient else PermanentError)(
            f"{quantities.plural(len(errors), 'stream')} not {done}: {causes}",
            hint="; ".join(dict.fromkeys(hints)),
        ) from errors[0]


def _prune_stream(
    context: dg.OpExecutionContext, project: Project, name: str, *, dry_run: bool
) -> None:
    pruned = catalogue.prune(project, name, dry_run=dry_run)
    orphans = prune_orphans(project, name, dry_run=dry_run)
    _report(context, name, pruned, orphans)
    if not dry_run:
        epochs = prune_epochs(project, name, pruned.verdicts)
        names_pruned = prune_file_names(project, name)
        context.log.info("%s: %s epochs, %s file names pruned", name, epochs, names_pruned)


def _prune_all(context: dg.OpExecutionContext, project: Project) -> dict[str, int]:
    """Delete the old records of the whole project; returns how many of each kind."""
    names = sorted(project.config.streams)
    for log in rotate_logs(project, streams=names):
        context.log.info("rotated %s", log)
    now, retention = project.clock.now(), project.config.deployment.retention
    limits = DagsterLimits(
        runs=now - retention.dagster,
        routine=now - min(retention.routine_runs, retention.dagster),
        ticks=now - retention.skipped_ticks,
    )
    counts = {
        **prune_records(project, streams=names),
        "dagster_runs": prune_dagster(context.instance, limits),
    }
    if pages := project.store.retention.release_space():
        context.log.info("%s pages of the control store given back", pages)
    return counts


def _report(
    context: dg.OpExecutionContext, stream: str, pruned: Pruned, orphans: Sequence[str]
) -> None:
    kept = len(pruned.verdicts) - len(pruned.dropped)
    context.log.info(
        "%s: %s snapshots kept, %s dropped, %s freed, %s staged files dropped %s",
        stream, kept, len(pruned.dropped), quantities.size(pruned.bytes_freed), len(orphans), pruned.note,
    )  # fmt: skip
    context.log_event(
        dg.AssetObservation(
            snapshots_key(stream),
            description=f"retention kept {kept} and dropped {len(pruned.dropped)}",
            metadata={
                "kept": kept,
                "dropped": len(pruned.dropped),
                "packs_deleted": len(pruned.packs_deleted),
                "bytes_freed": pruned.bytes_freed,
                "staged_files_dropped": len(orphans),
                "note": pruned.note,
                "verdicts": _verdict_table(pruned.verdicts),
            },
        )
    )


def _verdict_table(verdicts: Sequence[RetentionVerdict]) -> dg.TableMetadataValue:
    rows = [
        dg.TableRecord(
            {
                "snapshot": verdict.snapshot.id,
                "verdict": "keep" if verdict.keep else "drop",
                "reasons": "; ".join(verdict.reasons),
            }
        )
        for verdict in verdicts
    ]
    names = ("snapshot", "verdict", "reasons")
    schema = dg.TableSchema(columns=[dg.TableColumn(name, "string") for name in names])
    return dg.MetadataValue.table(rows, schema)


class RepairConfig(PlannedConfig):
    """The stream to repair, and how."""

    repair: str = Field(default=ALL, description=f"One of {ALL}, {', '.join(RepairKind)}.")
    deep: bool = Field(default=False, description="Also read all bytes of all snapshots.")
    dry_run: bool = Field(default=True, description="Only show the plan. Nothing is changed.")


def _repair(project: Project, config: RepairConfig, run: str) -> Repair:
    return Repair(project, config.stream, run, chosen=parse_repair(config.repair), deep=config.deep)


def _run_repair(context: dg.OpExecutionContext, repair: Repair) -> dict[str, Any]:
    show_plan(context, repair)  # logs it; a repair that fixes no finding is refused here
    return {**show_steps(context, repair), **_findings(repair)}


def _plan_repair(context: dg.OpExecutionContext, repair: Repair) -> dict[str, Any]:
    return {**show_plan(context, repair), **_findings(repair)}


def _findings(repair: Repair) -> dict[str, Any]:
    """Examine the stream again; the findings for the page of the run."""
    diagnosis = diagnose_stream(repair.project, repair.stream, deep=repair.deep)
    return dict(judge(diagnosis.findings).metadata or {})


class CompactConfig(dg.Config):
    """The streams whose tables to compact."""

    streams: list[str] = Field(
        default_factory=list, description="Declared streams; empty means all."
    )
    dry_run: bool = Field(default=False, description="Only show the plan. Nothing is changed.")


@dg.op(description="Merge the old files, and delete those that no restore can need any more.")
def compact(
    context: dg.OpExecutionContext,
    config: CompactConfig,
    projects: dg.ResourceParam[ProjectResource],
) -> None:
    """Compact each stream; one that cannot be compacted does not hold up the others."""
    metadata: dict[str, dg.MetadataValue] = {}
    failures = _StreamFailures(context)
    with dagster_errors(), projects.open() as project:
        for name in _chosen_streams(project, config.streams):
            with failures.collect(name):
                playbook = Compact(project, name, context.run_id)
                if config.dry_run:
                    shown = show_plan(context, playbook)
                else:
                    shown = show_steps(context, playbook)
                metadata |= {f"{name}: {title}": table for title, table in shown.items()}
            if not config.dry_run:
                with failures.collect(name):  # above all where the compaction has failed
                    sample_growth(project, name)
        context.add_output_metadata(metadata)
        failures.raise_if_any("compacted")


class RehashConfig(StreamConfig):
    """The stream whose table to hash, and how many epochs of it."""

    newest_epochs: int = Field(
        default=200, ge=1, description="How many of the newest epochs to hash."
    )


@dg.op(description="Hash the rows of the newest epochs again, and compare them with the ledger.")
def rehash(
    context: dg.OpExecutionContext,
    config: RehashConfig,
    projects: dg.ResourceParam[ProjectResource],
) -> None:
    """Fail if the rows of an epoch differ from what the ledger has."""
    from holdfast.assets.rehash import (
        open_spark,  # Spark is slow to import
        rehash as rehash_table,  # Spark is slow to import
    )

    tag_stream(context, config.stream)
    with dagster_errors(), projects.open() as project, open_spark() as spark:
        outcome = rehash_table(project, config.stream, spark, newest=config.newest_epochs)
    metadata = {"epochs_hashed": len(outcome.epochs), "epochs_differing": len(outcome.differing)}
    context.log_event(dg.AssetObservation(output_key(config.stream), metadata=metadata))
    context.add_output_metadata(metadata)
    if outcome.differing:
        raise dg.Failure(
            f"the rows of epochs {outcome.differing[:20]} differ from those that were committed",
            metadata={
                "hint": "look for a writer that changed the table, or a faulty disk: the ledger is right"
            },
            allow_retries=False,
        )


prune_snapshots = build_job(
    "prune_snapshots",
    prune,
    playbook="prune",
    description="Drops snapshots that the retention of their stream does not keep, files that were staged for a Delta "
    "table and never committed, epochs before the restore window, and records, samples, logs and runs of Dagster that "
    "are older than `retention` in configs/holdfast.yaml keeps them.",
    max_runtime_seconds=3600,
)


def repair_stream(streams: Sequence[str]) -> dg.JobDefinition:
    """The job that repairs one of these streams."""
    return build_job(
        "repair_stream",
        build_op(
            "repair",
            RepairConfig,
            _repair,
            streams=streams,
            run=_run_repair,
            plan=_plan_repair,
            description="Examine the stream, and repair the findings step by step.",
        ),
        playbook="repair",
        description="Applies the doctor's repairs to a stream; what it removes is kept until the run is confirmed or "
        "undone with `holdfast doctor`. A dry run, unless `dry_run` is false.",
        max_runtime_seconds=3600,
    )


compact_tables = build_job(
    "compact_tables",
    compact,
    playbook="compact",
    description="Merges the old files in the tables of all streams, each time in one commit and after a "
    "comparison of all rows; files that were merged before the restore window are deleted.",
    max_runtime_seconds=3600,
)
rehash_output = build_job(
    "rehash_output",
    rehash,
    playbook="rehash",
    description="Hashes the rows of a stream's table again with Spark and compares each epoch with "
    "the ledger: proves that the committed rows are still there, unchanged.",
    max_runtime_seconds=3600,
)
