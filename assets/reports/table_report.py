"""Reports as Dagster shows them: tables and plots in the metadata, and reports that are one table."""

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import dagster as dg

from holdfast.assets.keys import report_key
from holdfast.assets.project_resource import Worlds, explained
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
    """A report whose rows are read anew with each run; `count` adds figures that Dagster plots over time."""

    @dg.asset(
        key=report_key(report),
        deps=list(deps),
        group_name="reports",
        kinds={"table"},
        description=description,
    )
    def materialize_table(worlds: dg.ResourceParam[Worlds]) -> Materialized:
        with explained(), worlds.open() as world:
            rows = read_rows(world)
            file = write_report(world.config.home, report, rows)
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
    """A plot that is seen on the asset's page."""
    return dg.MetadataValue.md(f"![{title}](data:image/png;base64,{b64encode(png).decode()})")


def _column_type(column: Sequence[Cell]) -> str:
    values = [value for value in column if value is not None]
    return _KINDS[type(values[0])] if values else "string"


def _round(value: Cell) -> Cell:
    return float(f"{value:.6g}") if isinstance(value, float) else value
