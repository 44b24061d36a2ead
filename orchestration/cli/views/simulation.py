"""What `holdfast simulate` shows: a table, and a plot of all objectives or of one over time.

Plots use Matplotlib's objects, not its global state; it is imported when a plot is drawn.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from rich.table import Table

from holdfast.assets.reports.plots import TIER_COLOURS, hide_frame, tier_label
from holdfast.ft_policies.simulator.engine import Scenario, SimulationProgress
from holdfast.ft_policies.simulator.results import Outcome
from holdfast.ft_policies.tiers import Tier
from holdfast.orchestration.cli import format as fmt

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_POINTS = 5_000
DPI = 110


class Timeline:
    """Rate, state and tier of the first stream, if there is a single objective; thinned to `MAX_POINTS`."""

    def __init__(self, scenario: Scenario) -> None:
        self.wanted = len(scenario.objectives) == 1
        self._tick_seconds = scenario.system.tick_seconds
        self._every = -(-scenario.ticks // MAX_POINTS)
        self._ticks = 0
        self._points: list[tuple[float, float, float, int]] = []

    def add(self, progress: SimulationProgress) -> None:
        """Add the ticks of a simulated chunk."""
        rates, states = progress.load.rows_per_second[:, 0], progress.load.state_bytes[:, 0]
        for rate, state, tier in zip(rates, states, progress.tiers[:, 0, 0], strict=True):
            if self._ticks % self._every == 0:
                seconds = self._ticks * self._tick_seconds
                self._points.append((seconds, float(rate), float(state), int(tier)))
            self._ticks += 1

    def draw(self, figure: "Figure", title: str) -> None:
        """Draw rate, state and tier, one above the other."""
        seconds, rates, states, tiers = np.array(self._points).T
        unit, scale = ("hours", 3600.0) if seconds[-1] > 7200 else ("seconds", 1.0)
        load, size, tier = figure.subplots(3, 1, sharex=True)
        load.plot(seconds / scale, rates, color="#555555")
        load.set_ylabel("rows per second")
        size.plot(seconds / scale, states / 1e6, color="#555555")
        size.set_ylabel("state [MB]")
        tier.step(seconds / scale, tiers, where="post", color="#2166ac")
        tier.set_yticks(range(len(Tier)), [tier_label(label) for label in Tier])
        tier.set_ylim(len(Tier) - 0.5, -0.5)
        tier.set_xlabel(unit)
        for panel in (load, size, tier):
            hide_frame(panel)
        figure.suptitle(title, fontsize=11)


def draw(outcomes: Sequence[Outcome], timeline: Timeline, target: Path) -> None:
    """Write the plot in the format of the file's suffix."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 6.4), layout="constrained")
    if timeline.wanted:
        title = f"One stream with an objective of {outcomes[0].objective_seconds:g} s"
        timeline.draw(figure, title)
    else:
        _draw_sweep(figure, outcomes)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=DPI)


def _draw_sweep(figure: "Figure", outcomes: Sequence[Outcome]) -> None:
    """Draw the time in each tier, and the overheads as shares of those of `active_replication`."""
    times, overheads = figure.subplots(2, 1, sharex=True)
    names = [f"{outcome.objective_seconds:g}" for outcome in outcomes]
    places = np.arange(len(outcomes))
    below = np.zeros(len(outcomes))
    for tier in Tier:
        heights = np.array([100 * outcome.time_share[tier] for outcome in outcomes])
        times.bar(places, heights, bottom=below, color=TIER_COLOURS[tier], label=tier_label(tier))
        below += heights
    times.set_ylabel("% of the time")
    for name in outcomes[0].overhead:
        shares = [100 * outcome.overhead[name] for outcome in outcomes]
        overheads.plot(places, shares, marker="o", label=name)
    costs = [100 * outcome.cost_share for outcome in outcomes]
    overheads.plot(places, costs, color="black", linewidth=2.5, label="cost")
    overheads.set_ylabel("% of active replication")
    overheads.set_xlabel("objective [s]")
    overheads.set_xticks(places, names)
    for panel in (times, overheads):
        hide_frame(panel)
        panel.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False)
    figure.suptitle("Objectives side by side on the same load", fontsize=11)


def outcome_table(outcomes: Sequence[Outcome]) -> Table:
    """One row per objective."""
    table = Table(box=None, pad_edge=False)
    for column, justify in _columns(outcomes[0]):
        table.add_column(column, justify=justify)
    for outcome in outcomes:
        table.add_row(*_row(outcome))
    return table


def _columns(outcome: Outcome) -> list[tuple[str, Literal["left", "right"]]]:
    numbers = [*outcome.overhead, "cost"]
    if outcome.money is not None:
        numbers += [outcome.money.currency, "if active", "if passive"]
    numbers += ["switches/h", "failures", "misses"]
    return [("objective", "right"), ("tiers", "left"), *((name, "right") for name in numbers)]


def _row(outcome: Outcome) -> list[str]:
    money = outcome.money
    amounts = (
        []
        if money is None
        else [money.per_hour, money.always_active_replication, money.always_passive_replication]
    )
    return [
        fmt.seconds(outcome.objective_seconds),
        fmt.tiers(outcome.time_share),
        *(fmt.share(share) for share in (*outcome.overhead.values(), outcome.cost_share)),
        *(fmt.money(amount) for amount in amounts),
        fmt.number(outcome.switches_per_hour),
        fmt.count(outcome.failures),
        fmt.count(outcome.misses),
    ]
