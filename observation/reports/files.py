"""Reports as files: `<home>/reports/<report>/<part>.csv`, `.parquet` and `.png`.

Each file is written beside and renamed, so that no reader finds half a report.
"""

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, TypeAlias

from holdfast.ft_policies.costs.report import Cell

Rows: TypeAlias = list[dict[str, Cell]]
NEWEST = "newest"  # the part of reports that are about now, and not about a day


def report_folder(home: Path, report: str) -> Path:
    """Where the files of a report are."""
    return home / "reports" / report


def report_file(home: Path, report: str, *, part: str) -> Path:
    """The table as CSV."""
    return report_folder(home, report) / f"{part}.csv"


def write_report(
    home: Path,
    report: str,
    rows: Sequence[Mapping[str, Cell]],
    png: bytes | None = None,
    *,
    part: str = NEWEST,
) -> Path:
    """Write a report's table, and its plot if there is a plot; returns the path of the CSV."""
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
    """The rows of a report as they were stored; `None` if it was not."""
    from pyarrow import parquet

    path = report_folder(home, report) / f"{part}.parquet"
    return parquet.read_table(path).to_pylist() if path.exists() else None


def _write(path: Path, write: Callable[[Path], object]) -> None:
    beside = path.with_name(f".{path.name}")
    write(beside)
    beside.rename(path)


def finite(value: float) -> float | None:
    """The value, or `None` where it is infinite: not known, and no JSON value either."""
    return value if isfinite(value) else None
