"""The check on dead letters: the share of records that a stream has set aside stays within its limit."""

import dagster as dg

from holdfast.assets.keys import output_key
from holdfast.assets.project_resource import ProjectResource, dagster_errors
from holdfast.configs.declarations.sources import FilesSource
from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.observation.tables import newest_rows, open_table_at
from holdfast.resources.project import Project
from holdfast.streaming.sources.files import records_aside

CHECKED_EPOCHS = 1_000
SHOWN_ROWS = 10_000
SHOWN_REASONS = 10


def checks(declared: StreamDeclaration) -> list[dg.AssetChecksDefinition]:
    """The check of a stream's dead letters; none if its source does not keep them."""
    source, name = declared.source, declared.name
    if not isinstance(source, FilesSource) or source.dead_letters is None:
        return []
    most = source.dead_letters.most

    @dg.asset_check(
        asset=output_key(name),
        name="dead_letters",
        description=f"At most {most:.2%} of the records of the last {CHECKED_EPOCHS:,} epochs were "
        "set aside as dead letters.",
    )
    def dead_letters(projects: dg.ResourceParam[ProjectResource]) -> dg.AssetCheckResult:
        with dagster_errors(), projects.open() as project:
            return judge(project, name, most)

    return [dead_letters]


def judge(project: Project, stream: str, most: float) -> dg.AssetCheckResult:
    """Compare the share of records that were set aside with the declared limit."""
    last = project.store.epochs.last(stream)
    through = -1 if last is None else last.epoch
    epochs = project.store.epochs.between(stream, through - CHECKED_EPOCHS + 1, through)
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
            "table": project.config.dead_letters_path(stream) or "",
            "reasons": dg.MetadataValue.json(_reasons(project, stream)),
        },
    )


def _reasons(project: Project, stream: str) -> dict[str, int]:
    """Count the most frequent reasons among the newest dead letters, without their record-specific ends."""
    table = open_table_at(project, project.config.dead_letters_path(stream) or "")
    if table is None:
        return {}
    reasons = newest_rows(table, at_least=SHOWN_ROWS).frame["reason"]
    counts = reasons.str.replace(r"[\d'\"].*", "…", regex=True).value_counts()
    return {str(reason): int(count) for reason, count in counts.head(SHOWN_REASONS).items()}
