"""The report on the cost of fault tolerance: one partition a day, a row for each stream that ran."""

from collections.abc import Sequence
from datetime import date

import dagster as dg

from holdfast.assets.keys import report_key, tiers_key
from holdfast.assets.project_resource import ProjectResource, dagster_errors
from holdfast.assets.reports.plots import draw_costs
from holdfast.assets.reports.table_report import Materialized, picture, table
from holdfast.ft_policies.costs.report import CostRow
from holdfast.observation.reports.costs import (
    REPORT,
    count_costs,
    day_bounds,
    find_retention_start,
    read_reported_costs,
    streams_measured_between,
)
from holdfast.observation.reports.files import report_file, write_report
from holdfast.resources.project import Project

SO_FAR = "today_so_far"


def definition(streams: Sequence[str], *, since: date) -> dg.AssetsDefinition:
    """The report over these streams, for each day since then up to today."""

    @dg.asset(
        key=report_key(REPORT),
        deps=[tiers_key(name) for name in streams],
        partitions_def=dg.DailyPartitionsDefinition(
            start_date=str(since), timezone="UTC", end_offset=1
        ),
        group_name="reports",
        kinds={"table"},
        description="The cost of each stream's fault tolerance in a day, or today so far, in money and in the thesis' "
        "normalised units, compared with active and passive replication all day; the time in each "
        "tier, and the recoveries that missed the objective.",
    )
    def cost_report(
        context: dg.AssetExecutionContext, projects: dg.ResourceParam[ProjectResource]
    ) -> Materialized:
        day = date.fromisoformat(context.partition_key)
        with dagster_errors(), projects.open() as project:
            return report_day(project, streams, day)

    return cost_report


def report_day(project: Project, streams: Sequence[str], day: date) -> Materialized:
    """Count the costs of a day and store them; once its measurements are deleted, read the stored rows.

    The costs of today change until midnight: they are stored under another name, which no other report reads.
    """
    since, until = day_bounds(day)
    kept = (
        read_reported_costs(project, day, streams)
        if since < find_retention_start(project)
        else None
    )
    rows = count_costs(project, streams, since, until) if kept is None else kept
    title = f"Fault tolerance on {day} (UTC)"
    png = draw_costs(rows, title)
    cells = [row.cells() for row in rows]
    home, part = project.config.home, str(day) if until <= project.store.now() else SO_FAR
    file = (
        write_report(home, REPORT, cells, png, part=part)
        if kept is None
        else report_file(home, REPORT, part=part)
    )
    measured = streams_measured_between(project, streams, since, until)
    missing = sorted(set(measured) - {row.stream for row in rows})
    return dg.MaterializeResult(
        metadata={
            **_totals(rows),
            "streams_not_counted": ", ".join(missing) or "none",
            "streams": table(cells),
            "dagster/row_count": len(rows),
            "plot": picture(png, title),
            "file": dg.MetadataValue.path(file),
        },
    )


def _totals(rows: Sequence[CostRow]) -> dict[str, float]:
    """The sums that Dagster plots from day to day, by currency; most projects have one."""
    totals: dict[str, float] = {"misses": sum(row.misses for row in rows)}
    for row in rows:
        for name, amount in (
            (f"spent_{row.currency}", row.money),
            (f"if_active_{row.currency}", row.money_if_active),
            (f"if_passive_{row.currency}", row.money_if_passive),
        ):
            totals[name] = totals.get(name, 0.0) + amount
    return totals
