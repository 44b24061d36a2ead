"""The report on what fault tolerance cost: one partition a day, a row for each stream that ran."""

from collections.abc import Sequence
from datetime import date
from functools import partial

import dagster as dg

from assets.failures import explained
from assets.keys import report_key, tiers_key
from assets.reports import suites
from assets.reports.checking import Materialized, expectations_of, judge
from assets.reports.days import (
    REPORT,
    bounds,
    counted,
    measured_between,
    measured_since,
    reported,
)
from assets.reports.plots import draw_costs
from assets.reports.showing import picture, table
from assets.reports.storing import file_of, store
from assets.worlds import Worlds
from ft_policies.costs.report import CostRow
from streaming.world import World

# Days that are over: what is counted of a day does not change any more.
DAYS = dg.DailyPartitionsDefinition(start_date="2026-01-01", timezone="UTC")


def definition(streams: Sequence[str]) -> dg.AssetsDefinition:
    """The report over these streams."""

    @dg.asset(
        key=report_key(REPORT),
        deps=[tiers_key(name) for name in streams],
        partitions_def=DAYS,
        group_name="reports",
        kinds={"table"},
        description="What each stream's fault tolerance cost in a day, in money and in the thesis' "
        "normalised units, against active and passive replication all day; its time by tier, and "
        "the recoveries that missed the objective.",
        check_specs=[
            expectations_of(
                REPORT,
                "Every stream that ran is there once, its shares of time add up to 1, nothing is "
                "negative, and nobody spent more than active replication would have cost.",
            )
        ],
    )
    def cost_report(
        context: dg.AssetExecutionContext, worlds: dg.ResourceParam[Worlds]
    ) -> Materialized:
        day = date.fromisoformat(context.partition_key)
        with explained(), worlds.open() as world:
            return report(world, streams, day)

    return cost_report


def report(world: World, streams: Sequence[str], day: date) -> Materialized:
    """Count a day, keep it, and check it; once measurements of it are gone, what was kept stands."""
    since, until = bounds(day)
    kept = reported(world, day, streams) if since < measured_since(world) else None
    rows = counted(world, streams, since, until) if kept is None else kept
    title = f"Fault tolerance on {day} (UTC)"
    png = draw_costs(rows, title)
    cells = [row.cells() for row in rows]
    home, part = world.project.home, str(day)
    file = (
        store(home, REPORT, cells, png, part=part)
        if kept is None
        else file_of(home, REPORT, part=part)
    )
    ran = measured_between(world, streams, since, until)
    return dg.MaterializeResult(
        metadata={
            **_totals(rows),
            "streams": table(cells),
            "dagster/row_count": len(rows),
            "plot": picture(png, title),
            "file": dg.MetadataValue.path(file),
        },
        check_results=[judge(cells, partial(suites.costs, ran=ran), demanded=ran)],
    )


def _totals(rows: Sequence[CostRow]) -> dict[str, float]:
    """Figures that Dagster plots from day to day; a project has one currency, as a rule."""
    found: dict[str, float] = {"misses": sum(row.misses for row in rows)}
    for row in rows:
        for name, amount in (
            (f"spent_{row.currency}", row.money),
            (f"if_active_{row.currency}", row.money_if_active),
            (f"if_passive_{row.currency}", row.money_if_passive),
        ):
            found[name] = found.get(name, 0.0) + amount
    return found
