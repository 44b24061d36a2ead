"""What all benchmarks share: the facts of the machine, progress, the table, the bars, the JSON.

A benchmark is a script: it makes a `Benchmark`, measures inside `with benchmark.progress(...)`, adds
rows and bars, and ends with `sys.exit(benchmark.finish())`. Its result is one JSON file beside it, from
which `render.py` writes docs/benchmarks.md.
"""

import json
import operator
import os
import platform
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TypeAlias

import psutil
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

RESULTS = Path(__file__).parent / "results"
Cell: TypeAlias = str | int | float
Row: TypeAlias = dict[str, Cell]
_HOLDS = {"<=": operator.le, ">=": operator.ge}


@contextmanager
def scratch_folder(benchmark: str) -> Iterator[Path]:
    """An empty folder that is deleted afterwards, with whatever is in it then."""
    folder = Path(tempfile.mkdtemp(prefix=f"bench-{benchmark}-")).resolve()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Bar:
    """What a figure has to reach, and whether it does."""

    name: str
    value: float
    bar: str
    holds: bool


@dataclass
class Benchmark:
    """One benchmark: rows and bars, printed and kept."""

    name: str
    title: str
    notes: str = ""
    console: Console = field(default_factory=Console)
    table: list[Row] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)

    def row(self, **cells: Cell) -> None:
        """Add a line to the table; the names are the columns."""
        self.table.append(cells)

    def bar(self, name: str, value: float, sign: str, limit: float) -> None:
        """Add a bar: `sign` is `<=` or `>=`."""
        self.bars.append(
            Bar(name, round(value, 4), f"{sign} {limit:g}", _HOLDS[sign](value, limit))
        )

    @contextmanager
    def progress(self, total: int) -> Iterator[Callable[[str], None]]:
        """A progress bar; call what it gives with the name of each step as it begins."""
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self.console, transient=True) as bar:
            task = bar.add_task(self.title, total=total)
            begun = 0

            def step(description: str) -> None:
                nonlocal begun
                bar.update(task, description=description, completed=begun)
                begun += 1

            yield step

    def finish(self) -> int:
        """Print, write the JSON, and say with which code to exit: 1 if a bar does not hold."""
        document = {
            "title": self.title,
            "notes": self.notes,
            "machine": machine(),
            "table": self.table,
            "bars": [asdict(bar) for bar in self.bars],
        }
        RESULTS.mkdir(exist_ok=True)
        target = RESULTS / f"{self.name}.json"
        target.write_text(json.dumps(document, indent=2) + "\n")
        code = self.show()
        self.console.print(f"written to benchmarks/results/{target.name}")
        return code

    def show(self) -> int:
        """Print what there is, without keeping it; the code is 1 if a bar does not hold."""
        self.console.print(_build_table(self.title, self.table))
        self.console.print(_build_table("bars", [asdict(bar) for bar in self.bars]))
        return 0 if all(bar.holds for bar in self.bars) else 1


def machine() -> Row:
    """The facts that a reader needs to judge the figures."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count() or 0,
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "python": platform.python_version(),
        "pyspark": metadata.version("pyspark"),
    }


def median(values: Sequence[float]) -> float:
    """The median, rounded to what can be read."""
    return round(statistics.median(values), 4)


def format_cell(cell: object) -> str:
    """A cell with a readable number of digits."""
    match cell:
        case bool():
            return "yes" if cell else "no"
        case int():
            return f"{cell:,}"
        case float():
            return f"{cell:,.3f}" if abs(cell) < 100 else f"{cell:,.0f}"
        case _:
            return str(cell)


def list_columns(rows: Sequence[dict[str, Cell]]) -> list[str]:
    """All columns that any row has, in the order in which they first appear."""
    return list(dict.fromkeys(name for row in rows for name in row))


def _build_table(title: str, rows: Sequence[dict[str, Cell]]) -> Table:
    table = Table(title=title)
    for name in list_columns(rows):
        table.add_column(name, justify="left" if _is_text(rows, name) else "right")
    for row in rows:
        table.add_row(*(format_cell(row.get(name, "")) for name in list_columns(rows)))
    return table


def _is_text(rows: Sequence[dict[str, Cell]], name: str) -> bool:
    return all(isinstance(row.get(name, ""), str) for row in rows)
