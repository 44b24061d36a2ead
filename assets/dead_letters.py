"""The records that a stream has set aside, and the check that they are few."""

import dagster as dg

from holdfast.assets.keys import output_key
from holdfast.assets.project_resource import Worlds, explained
from holdfast.configs.sources import FilesSource
from holdfast.configs.stream import StreamDeclaration
from holdfast.observation.tables import newest_rows, table_at
from holdfast.resources.project import Project
from holdfast.streaming.sources.files import records_aside

CHECKED_EPOCHS = 1_000
SHOWN_ROWS = 10_000
SHOWN_REASONS = 10


def checks(declared: StreamDeclaration) -> list[dg.AssetChecksDefinition]:
    """The claim about a stream's dead letters, if it has any."""
    source, name = declared.source, declared.name
    if not isinstance(source, FilesSource) or source.dead_letters is None:
        return []
    most = source.dead_letters.most

    @dg.asset_check(
        asset=output_key(name),
        name="dead_letters",
        description=f"Of the records of the last {CHECKED_EPOCHS:,} epochs no more than {most:.2%} were "
        "set aside as dead letters.",
    )
    def dead_letters(worlds: dg.ResourceParam[Worlds]) -> dg.AssetCheckResult:
        with explained(), worlds.open() as world:
            return judge(world, name, most)

    return [dead_letters]


def judge(world: Project, stream: str, most: float) -> dg.AssetCheckResult:
    """Hold the share of records that were set aside against what is allowed."""
    last = world.store.epochs.last(stream)
    through = -1 if last is None else last.epoch
    epochs = world.store.epochs.between(stream, through - CHECKED_EPOCHS + 1, through)
    aside = sum(records_aside(epoch.input) for epoch in epochs)
    records = aside + sum(epoch.rows for epoch in epochs)
    share = aside / records if records else 0.0
    return dg.AssetCheckResult(
        passed=share <= most,
        severity=dg.AssetCheckSeverity.ERROR,
        description=f"{aside:,} of {records:,} records were set aside ({share:.2%}, allowed {most:.2%})",
        metadata={
            "dead_letters": aside,
            "records": records,
            "share": share,
            "table": world.config.dead_letters_path(stream) or "",
            "reasons": dg.MetadataValue.json(_reasons(world, stream)),
        },
    )


def _reasons(world: Project, stream: str) -> dict[str, int]:
    """The commonest reasons among the newest dead letters, without what differs from line to line."""
    table = table_at(world, world.config.dead_letters_path(stream) or "")
    if table is None:
        return {}
    reasons = newest_rows(table, at_least=SHOWN_ROWS).frame["reason"]
    counts = reasons.str.replace(r"[\d'\"].*", "…", regex=True).value_counts()
    return {str(reason): int(count) for reason, count in counts.head(SHOWN_REASONS).items()}
