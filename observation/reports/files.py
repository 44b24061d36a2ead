"""Reports as files: `<home>/reports/<report>/<part>.csv`, `.parquet` and `.png`.

Each file is written under another name and renamed, so that no reader finds half a report.
"""

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, TypeAlias

from holdfast.ft_policies.costs.report import Cell

Rows: TypeAlias = list[dict[str, Cell]]
NEWEST = "newest"  # the part of reports that are not about a day


def report_folder(home: Path, report: str) -> Path:
    return home / "reports" / report


def report_file(home: Path, report: str, *, part: str) -> Path:
    """The path of a report's table as CSV."""
    return report_folder(home, report) / f"{part}.csv"


def report_parts(home: Path, report: str) -> list[str]:
    """The parts of a report that are stored."""
    return [path.stem for path in report_folder(home, report).glob("[!.]*.csv")]


def write_report(
    home: Path,
    report: str,
    rows: Sequence[Mapping[str, Cell]],
    png: bytes | None = None,
    *,
    part: str = NEWEST,
) -> Path:
    """Write a report's table, and its plot if it has one; returns the path of the CSV."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    folder = report_folder(home, report)
    folder.mkdir(parents=True, exist_ok=True)
    content = pa.Table.from_pylist([dict(row) for row in rows])
    _write(folder / f"{part}.parquet", lambda path: parquet.write_table(content, path))
    if png is not None:
        _write(folder / f"{part}.png", lambda path: path.write_bytes(png))
    readable = report_file(home, report, part=part)
    _write(readable, lambda path: csv.write_csv(content, path))
    return readable


def read_report(home: Path, report: str, *, part: str = NEWEST) -> list[dict[str, Any]] | None:
    """Read the stored rows of a report; `None` if it was not stored."""
    from pyarrow import parquet

    path = report_folder(home, report) / f"{part}.parquet"
    return parquet.read_table(path).to_pylist() if path.exists() else None


def _write(path: Path, write: Callable[[Path], object]) -> None:
    partial = path.with_name(f".{path.name}")
    write(partial)
    partial.rename(path)


def finite_or_none(value: float) -> float | None:
    """The value, or `None` if it is infinite: unknown, and not a JSON value."""
    return value if isfinite(value) else None
