"""The plot of the adaptive benchmark: rate, state, tier and CPU seconds over time, with the kills."""

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from benchmarks.streams.monitor import spans
from benchmarks.streams.step_load import ALWAYS_ACTIVE, AUTO, OBJECTIVE_SECONDS, PassResult
from holdfast.ft_policies.tiers import Tier

COLOURS = {AUTO: "#2166ac", ALWAYS_ACTIVE: "#b2182b"}
TIERS_UPWARDS = tuple(reversed(Tier))


def draw(passes: Mapping[str, PassResult], target: Path) -> None:
    """Four panels over one time."""
    mpl.use("Agg")
    figure, panels = plt.subplots(
        4, 1, figsize=(9, 9), sharex=True, gridspec_kw={"height_ratios": [1, 1, 1.6, 1.4]}
    )
    auto = passes[AUTO]
    times = [moment.at for moment in auto.moments]
    panels[0].plot(times, [moment.rows_per_second for moment in auto.moments], color="#444444")
    panels[0].set_ylabel("rows / s")
    panels[1].plot(times, [moment.state_megabytes for moment in auto.moments], color="#5aae61")
    panels[1].set_ylabel("state, MB")
    _tiers(panels[2], auto)
    for name, run in passes.items():
        spent = [moment.primary_cpu + moment.secondary_cpu for moment in run.moments]
        panels[3].plot([m.at for m in run.moments], spent, color=COLOURS[name], label=name)
    panels[3].set_ylabel("CPU seconds, both replicas")
    panels[3].legend(frameon=False)
    panels[3].set_xlabel("seconds since the first row")
    for panel in panels:
        panel.set_ylim(bottom=0 if panel is not panels[2] else None)
        panel.spines[["top", "right"]].set_visible(False)
        for kill in auto.kills:
            panel.axvline(kill.at, color="#b2182b", linewidth=0.8, linestyle="--")
    figure.suptitle(
        f"A stream that keeps its own tier: objective {OBJECTIVE_SECONDS:g} s", fontsize=12
    )
    figure.tight_layout()
    target.parent.mkdir(exist_ok=True)
    figure.savefig(target, dpi=130)
    plt.close(figure)


def _tiers(panel: Axes, auto: PassResult) -> None:
    """A thick line at the height of the tier that is covered; what each kill took is written beside it."""
    for span in spans(auto.moments):
        height = TIERS_UPWARDS.index(span.tier)
        panel.hlines(height, span.from_at, span.to_at, color=COLOURS[AUTO], linewidth=6)
    for kill in auto.kills:
        height = TIERS_UPWARDS.index(kill.tier)
        panel.text(kill.at, height + 0.25, f" kill -9: back after {kill.seconds:.1f} s", fontsize=9)
    panel.set_yticks(range(len(TIERS_UPWARDS)), [tier.replace("_", " ") for tier in TIERS_UPWARDS])
    panel.set_ylim(-0.5, len(TIERS_UPWARDS) - 0.2)
