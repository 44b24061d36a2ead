"""The plot of the failover benchmark: where the seconds went, for each contender and state."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from benchmarks.failover_trial import STEPS, Found
from benchmarks.harness import median

COLOURS = dict(
    zip(
        STEPS,
        ("#b2182b", "#ef8a62", "#2166ac", "#67a9cf", "#5aae61", "#a6dba0", "#999999"),
        strict=True,
    )
)
WORDS = {"dagster": "Dagster's tick and run", "read_snapshot": "read snapshot"}
TITLE = "From kill -9 of the driver to the next committed epoch"


def draw(found: Sequence[Found], target: Path) -> None:
    """One panel a state, one bar a contender; a bar is as long as the median, split by step."""
    mpl.use("Agg")
    states = list(dict.fromkeys(one.state.name for one in found))
    figure, panels = plt.subplots(
        1, len(states), figsize=(6.2 * len(states), 4.4), sharey=True, squeeze=False
    )
    for panel, state in zip(panels[0], states, strict=True):
        _panel(panel, [one for one in found if one.state.name == state])
    panels[0][0].invert_yaxis()  # they share it
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(STEPS), frameon=False, fontsize=9)
    figure.suptitle(TITLE, fontsize=12)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    target.parent.mkdir(exist_ok=True)
    figure.savefig(target, dpi=130)
    plt.close(figure)


def _panel(panel: Axes, found: Sequence[Found]) -> None:
    names = [one.contender.replace("_", " ") for one in found]
    totals = [median([kill.seconds for kill in one.failovers]) for one in found]
    left = [0.0] * len(found)
    for step in STEPS:
        widths = [_share(one, step) * total for one, total in zip(found, totals, strict=True)]
        label = WORDS.get(step, step.replace("_", " "))
        panel.barh(names, widths, left=left, color=COLOURS[step], label=label, height=0.7)
        left = [before + width for before, width in zip(left, widths, strict=True)]
    for row, total in enumerate(totals):
        panel.text(total, row, f" {total:.2f} s", va="center", fontsize=9)
    size = max(one.state_megabytes for one in found)
    panel.set_title(f"{found[0].state.name} state ({size:.0f} MB)", fontsize=10)
    panel.set_xlabel("seconds")
    panel.set_xlim(0, max(totals) * 1.15)
    panel.spines[["top", "right"]].set_visible(False)


def _share(found: Found, step: str) -> float:
    """A step's share of all seconds, so that the parts of a bar add up to the median."""
    whole = sum(kill.seconds for kill in found.failovers)
    return sum(kill.steps[step] for kill in found.failovers) / whole
