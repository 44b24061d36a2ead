"""The plots of a simulation: all objectives beside each other, or one of them over time.

Drawn through Matplotlib's objects, not its global state, and imported when one is drawn.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from holdfast.assets.reports.plots import TIER_COLOURS, plain, tier_label
from holdfast.ft_policies.simulator.engine import Passed, Scenario
from holdfast.ft_policies.simulator.results import Outcome
from holdfast.ft_policies.tiers import Tier

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_POINTS = 5_000
DPI = 110


class TimeLine:
    """What the first stream of a single objective went through; of long ones every so many ticks."""

    def __init__(self, scenario: Scenario) -> None:
        self.wanted = len(scenario.objectives) == 1
        self._tick_seconds = scenario.system.tick_seconds
        self._every = -(-scenario.ticks // MOST_POINTS)
        self._ticks = 0
        self._points: list[tuple[float, float, float, int]] = []

    def add(self, passed: Passed) -> None:
        """Some more ticks."""
        rates, states = passed.load.rows_per_second[:, 0], passed.load.state_bytes[:, 0]
        for rate, state, tier in zip(rates, states, passed.tiers[:, 0, 0], strict=True):
            if self._ticks % self._every == 0:
                seconds = self._ticks * self._tick_seconds
                self._points.append((seconds, float(rate), float(state), int(tier)))
            self._ticks += 1

    def draw(self, figure: "Figure", title: str) -> None:
        """Rate, state and tier, one above the other."""
        seconds, rates, states, tiers = np.array(self._points).T
        unit, scale = ("hours", 3600.0) if seconds[-1] > 7200 else ("seconds", 1.0)
        load, size, tier = figure.subplots(3, 1, sharex=True)
        load.plot(seconds / scale, rates, color="#555555")
        load.set_ylabel("rows a second")
        size.plot(seconds / scale, states / 1e6, color="#555555")
        size.set_ylabel("state in MB")
        tier.step(seconds / scale, tiers, where="post", color="#2166ac")
        tier.set_yticks(range(len(Tier)), [tier_label(one) for one in Tier])
        tier.set_ylim(len(Tier) - 0.5, -0.5)
        tier.set_xlabel(unit)
        for panel in (load, size, tier):
            plain(panel)
        figure.suptitle(title, fontsize=11)


def draw(outcomes: Sequence[Outcome], line: TimeLine, target: Path) -> None:
    """Write the plot; the ending of the file's name says in which format."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 6.4), layout="constrained")
    if line.wanted:
        line.draw(figure, f"One stream with an objective of {outcomes[0].objective_seconds:g} s")
    else:
        _sweep(figure, outcomes)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=DPI)


def _sweep(figure: "Figure", outcomes: Sequence[Outcome]) -> None:
    """Time in each tier, and what is left of the overhead of `active_replication`."""
    times, overheads = figure.subplots(2, 1, sharex=True)
    names = [f"{one.objective_seconds:g}" for one in outcomes]
    places = np.arange(len(outcomes))
    below = np.zeros(len(outcomes))
    for tier in Tier:
        heights = np.array([100 * one.time_share[tier] for one in outcomes])
        times.bar(places, heights, bottom=below, color=TIER_COLOURS[tier], label=tier_label(tier))
        below += heights
    times.set_ylabel("% of the time")
    for name in outcomes[0].overhead:
        shares = [100 * one.overhead[name] for one in outcomes]
        overheads.plot(places, shares, marker="o", label=name)
    costs = [100 * one.cost_share for one in outcomes]
    overheads.plot(places, costs, color="black", linewidth=2.5, label="cost")
    overheads.set_ylabel("% of active replication")
    overheads.set_xlabel("objective in seconds")
    overheads.set_xticks(places, names)
    for panel in (times, overheads):
        plain(panel)
        panel.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False)
    figure.suptitle("Objectives beside each other on the same load", fontsize=11)
