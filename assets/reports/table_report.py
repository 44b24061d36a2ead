"""Reports as Dagster shows them: tables and plots in the metadata, and reports that are one table."""

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import dagster as dg

from holdfast.assets.keys import report_key
from holdfast.assets.project_resource import ProjectResource, dagster_errors
from holdfast.ft_policies.costs.report import Cell
from holdfast.observation.reports.files import Rows, write_report
from holdfast.resources.project import Project

SHOWN_ROWS = 200
Materialized: TypeAlias = dg.MaterializeResult[Any]
_KINDS: Mapping[type, str] = {str: "string", bool: "bool", int: "int", float: "float"}


def table_report(
    report: str,
    read_rows: Callable[[Project], Rows],
    *,
    deps: Sequence[dg.AssetKey],
    description: str,
    count: Callable[[Rows], Mapping[str, int]] = lambda _: {},
) -> dg.AssetsDefinition:
    """Define a report that is one table; `count` adds figures that Dagster plots over time."""

    @dg.asset(
        key=report_key(report),
        deps=list(deps),
        group_name="reports",
        kinds={"table"},
        description=description,
    )
    def materialize_table(projects: dg.ResourceParam[ProjectResource]) -> Materialized:
        with dagster_errors(), projects.open() as project:
            rows = read_rows(project)
            file = write_report(project.config.home, report, rows)
        return dg.MaterializeResult(
            metadata={
                **count(rows),
                "rows": table(rows),
                "dagster/row_count": len(rows),
                "file": dg.MetadataValue.path(file),
            }
        )

    return materialize_table


def table(rows: Sequence[Mapping[str, Cell]]) -> dg.TableMetadataValue:
    """The first rows as a table; all rows have the same columns."""
    names = list(rows[0]) if rows else []
    columns = [dg.TableColumn(name, _column_type([row[name] for row in rows])) for name in names]
    shown = [
        dg.TableRecord({name: _round(row[name]) for name in names}) for row in rows[:SHOWN_ROWS]
    ]
    return dg.MetadataValue.table(shown, dg.TableSchema(columns=columns))


def picture(png: bytes, title: str) -> dg.MarkdownMetadataValue:
    """A plot that Dagster shows on the asset's page."""
    return dg.MetadataValue.md(f"![{title}](data:image/png;base64,{b64encode(png).decode()})")


def _column_type(column: Sequence[Cell]) -> str:
    values = [value for value in column if value is not None]
    return _KINDS[type(values[0])] if values else "string"


def _round(value: Cell) -> Cell:
    return float(f"{value:.6g}") if isinstance(value, float) else value
