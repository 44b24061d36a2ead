"""Checks of reports: each is made with its report, and about the very rows that it has."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import dagster as dg

from assets.expectations import validate
from assets.keys import report_key
from assets.reports.suites import Judged

EXPECTATIONS = "expectations"
Row: TypeAlias = Mapping[str, Any]
if TYPE_CHECKING:
    Materialized: TypeAlias = dg.MaterializeResult[Any]
else:  # where an asset has checks as well, Dagster only recognises the class itself
    Materialized = dg.MaterializeResult


def expectations_of(report: str, description: str) -> dg.AssetCheckSpec:
    """The check that a report comes with."""
    return dg.AssetCheckSpec(EXPECTATIONS, asset=report_key(report), description=description)


def judge(
    rows: Sequence[Row],
    suite: Callable[[Sequence[Row]], Judged],
    *,
    demanded: Collection[str] = (),
) -> dg.AssetCheckResult:
    """Run a suite on the rows of a report; one without rows will do unless somebody must be there."""
    if rows:
        return validate(*suite(rows))
    return dg.AssetCheckResult(
        passed=not demanded,
        description=f"no row, but {', '.join(demanded)} ran" if demanded else "there are no rows",
    )
