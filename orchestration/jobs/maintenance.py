"""The jobs that keep a stream in order: pruning what is no longer kept, repairing, hashing its table again."""

from collections.abc import Sequence
from typing import Any

import dagster as dg
from pydantic import Field

from holdfast.assets.doctor import judge
from holdfast.assets.keys import output_key, snapshots_key
from holdfast.assets.project_resource import Worlds, explained
from holdfast.configs.sinks import DeltaSink
from holdfast.ft_policies.doctor.findings import RepairKind
from holdfast.ft_policies.snapshots import Verdict
from holdfast.observation.doctor.examine import diagnosed
from holdfast.observation.tables import drop_orphans, table_at
from holdfast.orchestration.jobs.base import (
    PlannedConfig,
    StreamConfig,
    name_stream,
    playbook_op,
    show_plan,
    show_steps,
    single_op_job,
)
from holdfast.orchestration.parsing import ALL, parse_repair
from holdfast.orchestration.playbooks.repair.repair import Repair
from holdfast.resources.project import Project
from holdfast.resources.vault import catalogue
from holdfast.resources.vault.prune import SUPERSEDED_SECONDS
from holdfast.resources.vault.records import Pruned


class PruneConfig(dg.Config):
    """Whose snapshots to prune."""

    streams: list[str] = Field(
        default_factory=list, description="Declared streams; none means all."
    )
    dry_run: bool = Field(default=False, description="Only say what would go.")


@dg.op(
    description="Drop the snapshots that retention does not keep, and say why it keeps the others."
)
def prune(
    context: dg.OpExecutionContext, config: PruneConfig, worlds: dg.ResourceParam[Worlds]
) -> None:
    """Apply the retention of each stream."""
    with explained(), worlds.open() as world:
        names = [world.config.stream(name).name for name in config.streams]
        for name in names or sorted(world.config.streams):
            pruned = catalogue.prune(world, name, dry_run=config.dry_run)
            orphans = prune_orphans_of(world, name, dry_run=config.dry_run)
            _report(context, name, pruned, orphans)
        keep = world.config.deployment.samples.keep
        now = world.store.now()
        samples = 0 if config.dry_run else world.store.samples.prune(now - keep)
        if not config.dry_run:
            world.store.restores.forget_entries(before=now - SUPERSEDED_SECONDS)
    context.add_output_metadata({"samples_pruned": samples, "dry_run": config.dry_run})


def prune_orphans_of(world: Project, stream: str, *, dry_run: bool) -> list[str]:
    """Drop what was staged for the stream's tables and never committed."""
    project, dead_letters = world.config, world.config.dead_letters_path(stream)
    is_table = isinstance(project.stream(stream).sink, DeltaSink)
    paths = [project.table_path(stream)] if is_table else []
    tables = [table_at(world, path) for path in (*paths, dead_letters) if path is not None]
    return [
        file
        for table in tables
        if table is not None
        for file in drop_orphans(table, dry_run=dry_run)
    ]


def _report(
    context: dg.OpExecutionContext, stream: str, pruned: Pruned, orphans: Sequence[str]
) -> None:
    kept = len(pruned.verdicts) - len(pruned.dropped)
    context.log.info(
        "%s: %s snapshots kept, %s dropped, %s bytes freed, %s staged files dropped %s",
        stream, kept, len(pruned.dropped), pruned.bytes_freed, len(orphans), pruned.note,
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


def _verdict_table(verdicts: Sequence[Verdict]) -> dg.TableMetadataValue:
    rows = [
        dg.TableRecord(
            {
                "snapshot": one.snapshot.id,
                "verdict": "keep" if one.keep else "drop",
                "reasons": "; ".join(one.reasons),
            }
        )
        for one in verdicts
    ]
    names = ("snapshot", "verdict", "reasons")
    schema = dg.TableSchema(columns=[dg.TableColumn(name, "string") for name in names])
    return dg.MetadataValue.table(rows, schema)


class RepairConfig(PlannedConfig):
    """Which stream to repair, and how."""

    repair: str = Field(default=ALL, description=f"One of {ALL}, {', '.join(RepairKind)}.")
    deep: bool = Field(default=False, description="Read all bytes of all snapshots, too.")
    dry_run: bool = Field(default=True, description="Only say what would be done.")


def _repair(world: Project, config: RepairConfig, run: str) -> Repair:
    return Repair(world, config.stream, run, chosen=parse_repair(config.repair), deep=config.deep)


def _run_repair(context: dg.OpExecutionContext, repair: Repair) -> dict[str, Any]:
    show_plan(context, repair)  # in the log; a choice that mends nothing is refused here
    return {**show_steps(context, repair), **_findings(repair)}


def _plan_repair(context: dg.OpExecutionContext, repair: Repair) -> dict[str, Any]:
    return {**show_plan(context, repair), **_findings(repair)}


def _findings(repair: Repair) -> dict[str, Any]:
    """What is found now."""
    diagnosis = diagnosed(repair.world, repair.stream, deep=repair.deep)
    return dict(judge(diagnosis.findings).metadata or {})


class RehashConfig(StreamConfig):
    """Whose table to hash, and how much of it."""

    newest_epochs: int = Field(default=200, ge=1, description="How far to look back.")


@dg.op(description="Hash the rows of the newest epochs again, and hold them against the ledger.")
def rehash(
    context: dg.OpExecutionContext, config: RehashConfig, worlds: dg.ResourceParam[Worlds]
) -> None:
    """Fail if an epoch's rows are not what the ledger says they were."""
    from holdfast.assets.rehash import (
        bounded_spark,  # Spark is slow to import
        rehash as rehash_table,  # Spark is slow to import
    )

    name_stream(context, config.stream)
    with explained(), worlds.open() as world, bounded_spark() as spark:
        outcome = rehash_table(world, config.stream, spark, newest=config.newest_epochs)
    metadata = {"epochs_hashed": len(outcome.epochs), "epochs_differing": len(outcome.differing)}
    context.log_event(dg.AssetObservation(output_key(config.stream), metadata=metadata))
    context.add_output_metadata(metadata)
    if outcome.differing:
        raise dg.Failure(
            f"rows of epochs {outcome.differing[:20]} are not those that were committed",
            metadata={"hint": "the table was changed, or its disk did it; the ledger is right"},
            allow_retries=False,
        )


prune_snapshots = single_op_job(
    "prune_snapshots",
    prune,
    playbook="prune",
    description="Drops snapshots by each stream's retention, samples that are older than the project "
    "keeps them, and files that were staged for a Delta table and never committed.",
    max_runtime_seconds=3600,
)
repair_stream = single_op_job(
    "repair_stream",
    playbook_op(
        "repair",
        RepairConfig,
        _repair,
        run=_run_repair,
        plan=_plan_repair,
        description="Look for what is wrong with the stream, and mend it step by step.",
    ),
    playbook="repair",
    description="Applies the doctor's repairs to a stream; what it removes is kept until the run is confirmed or "
    "undone with `holdfast doctor`. A dry run, unless told otherwise.",
    max_runtime_seconds=3600,
)
rehash_output = single_op_job(
    "rehash_output",
    rehash,
    playbook="rehash",
    description="Hashes the rows of a stream's table again with Spark and compares each epoch with "
    "the ledger: proves that what was committed is still there, unchanged.",
    max_runtime_seconds=3600,
)
