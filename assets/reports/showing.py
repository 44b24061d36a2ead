"""Report tables and plots as Dagster shows them."""

from base64 import b64encode
from collections.abc import Mapping, Sequence

import dagster as dg

from ft_policies.costs.report import Cell

SHOWN_ROWS = 200
_KINDS: Mapping[type, str] = {str: "string", bool: "bool", int: "int", float: "float"}


def table(rows: Sequence[Mapping[str, Cell]]) -> dg.TableMetadataValue:
    """The first rows as a table; all of them have the same columns."""
    names = list(rows[0]) if rows else []
    columns = [dg.TableColumn(name, _kind([row[name] for row in rows])) for name in names]
    shown = [
        dg.TableRecord({name: _rounded(row[name]) for name in names}) for row in rows[:SHOWN_ROWS]
    ]
    return dg.MetadataValue.table(shown, dg.TableSchema(columns=columns))


def picture(png: bytes, title: str) -> dg.MarkdownMetadataValue:
    """A plot that is seen on the asset's page."""
    return dg.MetadataValue.md(f"![{title}](data:image/png;base64,{b64encode(png).decode()})")


def _kind(column: Sequence[Cell]) -> str:
    known = [value for value in column if value is not None]
    return _KINDS[type(known[0])] if known else "string"


def _rounded(value: Cell) -> Cell:
    return float(f"{value:.6g}") if isinstance(value, float) else value
