"""The reports' plots as PNG.

They use Matplotlib's objects, not its global state, since Dagster may draw in any of its threads.
Matplotlib is imported when a plot is drawn: a process that draws none does not wait for the import.
"""

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING

from holdfast.ft_policies.costs.report import CostRow
from holdfast.ft_policies.prediction.past import PastPrediction
from holdfast.ft_policies.tiering.decision import WhatIf
from holdfast.ft_policies.tiers import Tier

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TIER_COLOURS: Mapping[Tier, str] = dict(
    zip(Tier, ("#b2182b", "#ef8a62", "#f6c667", "#92c5de", "#4393c3", "#2166ac"), strict=True)
)
SHOWN_STREAMS = 20
SHOWN_PANELS = 9
PANELS_ACROSS = 3
DPI = 90


def draw_costs(rows: Sequence[CostRow], title: str) -> bytes:
    """Draw each stream's time by tier, and its cost beside always active and always passive."""
    shown = sorted(rows, key=lambda row: row.money_if_active, reverse=True)[:SHOWN_STREAMS]
    figure = _figure(11.0, 1.6 + 0.45 * max(len(shown), 1), _shorten_title(title, shown, rows))
    times, money = figure.subplots(1, 2, sharey=True)
    places = range(len(shown))
    left = [0.0] * len(shown)
    for tier in Tier:
        widths = [100.0 * row.share(tier) for row in shown]
        times.barh(places, widths, left=left, color=TIER_COLOURS[tier], label=tier_label(tier))
        left = [before + width for before, width in zip(left, widths, strict=True)]
    times.set_yticks(places, [row.stream for row in shown])
    times.set_xlabel("% of the time")
    money.barh(
        places, [row.money_if_active for row in shown], color="#dddddd", label="always active"
    )
    money.barh(places, [row.money for row in shown], height=0.5, color="#2166ac", label="spent")
    passive = [row.money_if_passive for row in shown]
    money.plot(passive, places, "|", color="black", markersize=14, label="always passive")
    money.set_xlabel(", ".join(sorted({row.currency for row in shown})) or "money")
    for panel in (times, money):
        hide_frame(panel)
        panel.legend(
            loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, fontsize=8, frameon=False
        )
    times.invert_yaxis()  # they share it
    return _png(figure)


def draw_what_if(streams: Mapping[str, Sequence[WhatIf]], currency: str, title: str) -> bytes:
    """Draw the cost of each objective; the colour is the tier, a cross is an objective that is not held."""
    shown = dict(list(streams.items())[:SHOWN_PANELS])
    across = min(max(len(shown), 1), PANELS_ACROSS)
    down = -(-max(len(shown), 1) // across)
    figure = _figure(4.2 * across + 1.0, 3.0 * down + 0.6, _shorten_title(title, shown, streams))
    panels = list(figure.subplots(down, across, squeeze=False).flat)
    for panel, (stream, points) in zip(panels, shown.items(), strict=False):
        _curve(panel, points)
        panel.set_title(stream, fontsize=10)
        panel.set_xlabel("objective in seconds")
        panel.set_ylabel(f"{currency} an hour")
    for panel in panels[len(shown) :]:
        panel.set_visible(False)
    _tier_legend(figure, {point.tier for points in shown.values() for point in points})
    return _png(figure)


def draw_recoveries(recoveries: Sequence[PastPrediction], title: str) -> bytes:
    """Draw predicted against observed times; a point below the line took longer than predicted."""
    figure = _figure(6.4, 5.0, title)
    panel = figure.subplots()
    for tier in Tier:
        of_tier = [recovery for recovery in recoveries if recovery.recovered.tier is tier]
        observed = [recovery.recovered.seconds for recovery in of_tier]
        panel.plot(
            observed,
            [recovery.seconds for recovery in of_tier],
            "o",
            color=TIER_COLOURS[tier],
        )
    seconds = [s for r in recoveries for s in (r.recovered.seconds, r.seconds)]
    top = max(seconds, default=1.0) * 1.1 or 1.0
    panel.plot([0.0, top], [0.0, top], color="grey", linewidth=1.0)
    panel.set_xlim(0.0, top)
    panel.set_ylim(0.0, top)
    panel.set_xlabel("observed seconds")
    panel.set_ylabel("predicted seconds")
    hide_frame(panel)
    _tier_legend(figure, {recovery.recovered.tier for recovery in recoveries})
    return _png(figure)


def _curve(panel: "Axes", points: Sequence[WhatIf]) -> None:
    objectives = [point.objective_seconds for point in points]
    costs = [point.money_per_hour for point in points]
    panel.step(objectives, costs, where="post", color="#999999", linewidth=1.0)
    for point in points:
        panel.plot(
            point.objective_seconds,
            point.money_per_hour,
            "o" if point.holds else "x",
            color=TIER_COLOURS[point.tier],
            markersize=5,
        )
    panel.set_ylim(0.0, max(costs, default=0.0) * 1.15 or 1.0)
    hide_frame(panel)


def _tier_legend(figure: "Figure", tiers: set[Tier]) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], marker="o", linestyle="", color=TIER_COLOURS[tier], label=tier_label(tier))
        for tier in Tier
        if tier in tiers
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=8, frameon=False)


def _figure(width: float, height: float, title: str) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(title, fontsize=11)
    return figure


def _png(figure: "Figure") -> bytes:
    drawn = BytesIO()
    figure.savefig(drawn, format="png", dpi=DPI)
    return drawn.getvalue()


def hide_frame(panel: "Axes") -> None:
    """Remove the top and right border."""
    panel.spines[["top", "right"]].set_visible(False)


def tier_label(tier: Tier) -> str:
    return tier.value.replace("_", " ")


def _shorten_title(
    title: str,
    shown: "Sequence[object] | Mapping[str, object]",
    of: "Sequence[object] | Mapping[str, object]",
) -> str:
    return title if len(shown) == len(of) else f"{title} ({len(shown)} of {len(of)} streams)"
