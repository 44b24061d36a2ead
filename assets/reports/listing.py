"""Reports that are one table: made from the control store, stored, shown and checked."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import dagster as dg

from assets.failures import explained
from assets.keys import report_key
from assets.reports.checking import Materialized, Row, expectations_of, judge
from assets.reports.showing import table
from assets.reports.storing import store
from assets.reports.suites import Judged
from assets.worlds import Worlds
from ft_policies.costs.report import Cell
from streaming.world import World

Rows: TypeAlias = list[dict[str, Cell]]


def listing(
    report: str,
    rows_of: Callable[[World], Rows],
    suite: Callable[[Sequence[Row]], Judged],
    *,
    deps: Sequence[dg.AssetKey],
    description: str,
    expects: str,
) -> dg.AssetsDefinition:
    """A report whose rows are read anew each time it is asked for."""

    @dg.asset(
        key=report_key(report),
        deps=list(deps),
        group_name="reports",
        kinds={"table"},
        description=description,
        check_specs=[expectations_of(report, expects)],
    )
    def listed(worlds: dg.ResourceParam[Worlds]) -> Materialized:
        with explained(), worlds.open() as world:
            rows = rows_of(world)
            file = store(world.project.home, report, rows)
        return dg.MaterializeResult(
            metadata={
                "rows": table(rows),
                "dagster/row_count": len(rows),
                "file": dg.MetadataValue.path(file),
            },
            check_results=[judge(rows, suite)],
        )

    return listed
