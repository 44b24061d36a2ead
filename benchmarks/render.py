"""Write docs/benchmarks.md from the results of all benchmarks."""

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS, format_cell, list_columns

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
HEAD = """# Benchmarks

Made by `make bench` from `benchmarks/results/*.json`; do not edit. `make bench-NAME` runs one and
exits with 1 if one of its bars does not hold. Ratios compare things measured in the same run.
"""


def render_table(rows: list[dict[str, Any]]) -> str:
    """Rows as a Markdown table."""
    names = list_columns(rows)
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += [
        "| " + " | ".join(format_cell(row.get(name, "")) for name in names) + " |" for row in rows
    ]
    return "\n".join(lines)


def render_section(name: str, result: dict[str, Any]) -> str:
    """One benchmark as a section of the page."""
    machine = ", ".join(f"{key} {value}" for key, value in result["machine"].items())
    parts = [
        f"## {name}: {result['title']}",
        result["notes"],
        f"Measured on: {machine}.",
        _plot(name),
        render_table(result["table"]),
        render_table(result["bars"]),
    ]
    return "\n\n".join(part for part in parts if part)


def _plot(name: str) -> str:
    """The plot that a benchmark has written beside the page, if it has."""
    return f"![{name}]({name}.png)" if (PAGE.parent / f"{name}.png").exists() else ""


def main() -> int:
    """Render all results there are."""
    results = sorted(RESULTS.glob("*.json"))
    sections = [render_section(path.stem, json.loads(path.read_text())) for path in results]
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text("\n\n".join([HEAD.strip(), *sections]) + "\n")
    print(f"docs/{PAGE.name}: {len(sections)} benchmarks")
    return 0


if __name__ == "__main__":
    sys.exit(main())
