"""The plot of the applications' state: a small curve for each query."""

from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt

COLUMNS = 4
TITLE = "State after each epoch, as a share of its most"


def draw(curves: Mapping[str, Sequence[int]], target: Path) -> None:
    """Each query in a panel of its own; one that keeps nothing stays at zero."""
    mpl.use("Agg")
    rows = ceil(len(curves) / COLUMNS)
    figure, panels = plt.subplots(
        rows, COLUMNS, figsize=(8.4, 1.5 * rows + 0.5), sharex=True, sharey=True, squeeze=False
    )
    for panel in panels.flat[len(curves) :]:
        panel.set_visible(False)
    for panel, (name, curve) in zip(panels.flat, curves.items(), strict=False):
        most = max(curve) or 1
        panel.plot(range(1, len(curve) + 1), [100 * size / most for size in curve], color="#2166ac")
        panel.set_title(name.replace("_", " "), fontsize=8)
        panel.set_ylim(0, 110)
        panel.tick_params(labelsize=7)
        panel.spines[["top", "right"]].set_visible(False)
    figure.suptitle(TITLE, fontsize=11)
    figure.supxlabel("epoch", fontsize=9)
    figure.supylabel("per cent", fontsize=9)
    figure.tight_layout()
    figure.savefig(target, dpi=130)
    plt.close(figure)
