"""The plot of the failover benchmark: where the seconds went, for each contender."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import matplotlib as mpl
from matplotlib import pyplot as plt

from benchmarks.harness import Row
from benchmarks.streams.measurements import STEPS

COLOURS = dict(
    zip(
        STEPS,
        ("#b2182b", "#ef8a62", "#2166ac", "#67a9cf", "#5aae61", "#a6dba0", "#999999"),
        strict=True,
    )
)
WORDS = {"dagster": "Dagster's tick and run"}
TITLE = "From kill -9 of the driver to the next committed epoch"


def draw(table: Sequence[Row], target: Path) -> None:
    """One bar a contender, as long as the median, split as the medians of its steps are."""
    mpl.use("Agg")
    names = [str(row["contender"]).replace("_", " ") for row in table]
    totals = [_number(row, "seconds") for row in table]
    figure, panel = plt.subplots(figsize=(8.4, 4.8))
    left = [0.0] * len(table)
    for step in STEPS:
        widths = [_share(row, step) * total for row, total in zip(table, totals, strict=True)]
        label = WORDS.get(step, step.replace("_", " "))
        panel.barh(names, widths, left=left, color=COLOURS[step], label=label, height=0.7)
        left = [before + width for before, width in zip(left, widths, strict=True)]
    for at, total in enumerate(totals):
        panel.text(total, at, f" {total:.2f} s", va="center", fontsize=9)
    size = max(_number(row, "state_mb") for row in table)
    panel.invert_yaxis()
    panel.set_title(f"{TITLE} ({size:.0f} MB)", fontsize=11)
    panel.set_xlabel("seconds")
    panel.set_xlim(0, max(totals) * 1.12)
    panel.spines[["top", "right"]].set_visible(False)
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=4, frameon=False, fontsize=9)
    figure.tight_layout(rect=(0, 0.1, 1, 1))
    target.parent.mkdir(exist_ok=True)
    figure.savefig(target, dpi=130)
    plt.close(figure)


def _share(row: Row, step: str) -> float:
    """The medians of steps need not add up to the median of all."""
    whole = sum(_number(row, part) for part in STEPS)
    return _number(row, step) / whole if whole else 0.0


def _number(row: Row, name: str) -> float:
    return cast("float", row[name])
