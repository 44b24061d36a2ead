"""The job that lets go of what nobody needs: old snapshots, old samples, staged files left behind."""

from collections.abc import Sequence

import dagster as dg
from pydantic import Field

from assets.failures import explained
from assets.keys import snapshots_key
from assets.tables import drop_orphans, table_at
from assets.worlds import Worlds
from configs.sinks import DeltaSink
from ft_policies.retention import Verdict
from orchestration.reporting import playbook_tags
from resources.project import Project
from resources.vault import catalogue
from resources.vault.prune import SUPERSEDED_SECONDS
from resources.vault.records import Pruned


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
            world.store.histories.forget_entries(before=now - SUPERSEDED_SECONDS)
    context.add_output_metadata({"samples_pruned": samples, "dry_run": config.dry_run})


@dg.job(
    name="prune_snapshots",
    description="Drops snapshots by each stream's retention, samples that are older than the project "
    "keeps them, and files that were staged for a Delta table and never committed.",
    tags=playbook_tags("prune", max_runtime_seconds=3600),
    executor_def=dg.in_process_executor,
)
def prune_snapshots() -> None:
    """Let go of what nobody needs."""
    prune()


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
