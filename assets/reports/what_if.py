"""The report on the cost of other objectives: for each stream, from 0 to 60 seconds."""

import dagster as dg

from holdfast.assets.keys import report_key, stream_key
from holdfast.assets.project_resource import ProjectResource, dagster_errors
from holdfast.assets.reports.plots import draw_what_if
from holdfast.assets.reports.table_report import Materialized, picture, table
from holdfast.observation.reports.files import write_report
from holdfast.observation.reports.what_if import OBJECTIVES, AskWhatIf, currency_of, what_if_rows
from holdfast.resources.project import Project

REPORT = "what_if"
TITLE = "What an objective costs in fault tolerance"


def definition(streams: list[str], ask: AskWhatIf) -> dg.AssetsDefinition:
    """The report over these streams, as `ask` prices them."""

    @dg.asset(
        key=report_key(REPORT),
        deps=[stream_key(name) for name in streams],
        group_name="reports",
        kinds={"table"},
        description="For each stream that should run: the tier that an objective from 0 to 60 s would need "
        "at the present load, its cost, and whether it would hold the objective.",
    )
    def what_if(projects: dg.ResourceParam[ProjectResource]) -> Materialized:
        with dagster_errors(), projects.open() as project:
            curves = {name: ask(project, name, OBJECTIVES) for name in _running(project, streams)}
            rows = what_if_rows(curves, project)
            currencies = sorted({currency_of(project, name) for name in curves})
            png = draw_what_if(curves, ", ".join(currencies) or "money", TITLE)
            file = write_report(project.config.home, REPORT, rows, png)
        return dg.MaterializeResult(
            metadata={
                "objectives": table(rows),
                "dagster/row_count": len(rows),
                "plot": picture(png, TITLE),
                "file": dg.MetadataValue.path(file),
            },
        )

    return what_if


def _running(project: Project, streams: list[str]) -> list[str]:
    wanted = {row.name for row in project.store.streams.all() if row.is_desired}
    return [name for name in streams if name in wanted]
