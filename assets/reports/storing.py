"""Reports as files: `<home>/reports/<report>/<part>.csv`, `.parquet` and `.png`.

Each file is written beside and renamed, so that nobody reads half a report.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ft_policies.costs.report import Cell

NEWEST = "newest"  # the part of reports that are about now, and not about a day


def folder_of(home: Path, report: str) -> Path:
    """Where the files of a report are."""
    return home / "reports" / report


def file_of(home: Path, report: str, *, part: str) -> Path:
    """The table for people."""
    return folder_of(home, report) / f"{part}.csv"


def store(
    home: Path,
    report: str,
    rows: Sequence[Mapping[str, Cell]],
    png: bytes | None = None,
    *,
    part: str = NEWEST,
) -> Path:
    """Write a report's table, and its plot if it has one; the path of the table for people."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    folder = folder_of(home, report)
    folder.mkdir(parents=True, exist_ok=True)
    content = pa.Table.from_pylist([dict(row) for row in rows])
    _write(folder / f"{part}.parquet", lambda path: parquet.write_table(content, path))
    if png is not None:
        _write(folder / f"{part}.png", lambda path: path.write_bytes(png))
    readable = file_of(home, report, part=part)
    _write(readable, lambda path: csv.write_csv(content, path))
    return readable


def stored(home: Path, report: str, *, part: str = NEWEST) -> list[dict[str, Any]] | None:
    """The rows of a report as they were stored; `None` if it was not."""
    from pyarrow import parquet

    path = folder_of(home, report) / f"{part}.parquet"
    return parquet.read_table(path).to_pylist() if path.exists() else None


def _write(path: Path, write: Callable[[Path], object]) -> None:
    beside = path.with_name(f".{path.name}")
    write(beside)
    beside.rename(path)
