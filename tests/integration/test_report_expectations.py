"""What Great Expectations says of report tables that are right, and of those that are not."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import dagster as dg
import pytest

from assets.reports import suites
from assets.reports.checking import judge
from assets.reports.decisions import cells as decision_cells
from ft_policies.tiers import Tier
from tests.fakes.decisions import a_decision, a_decision_row
from tests.support.reports import a_cost_row, a_recovery

pytestmark = pytest.mark.integration

COSTS = a_cost_row().cells()
DECISION = decision_cells(a_decision_row(a_decision()))
CURVE = [
    {
        "stream": "clicks",
        "objective_seconds": objective,
        "tier": Tier.ACTIVE_REPLICATION.value,
        "holds": objective > 0.0,
        "predicted_seconds": 1.0,
        "money_per_hour": money,
        "units": 1.0,
    }
    for objective, money in ((0.0, 0.1), (5.0, 0.2), (10.0, 0.1))
]
DRILL = {"observed_seconds": 3.5, "held": True}
INCIDENT = {"state": "closed", "outcome": "recovered", "seconds": 9.0}
STEP = {"phase": "done", "seconds": 0.5}
DEARER = [*CURVE, {**CURVE[-1], "objective_seconds": 20.0, "money_per_hour": 1.0}]
Rows = Sequence[Mapping[str, Any]]
Suite = Callable[[Rows], Any]
RAN: Suite = partial(suites.costs, ran=["clicks"])
BY_MONEY: Suite = partial(suites.what_if, weigh_by={"clicks": "money"})
BY_UNITS: Suite = partial(suites.what_if, weigh_by={"clicks": "all_costs"})
BY_INSTANCES: Suite = partial(suites.what_if, weigh_by={"clicks": "ec2"})
ERROR, WARN = dg.AssetCheckSeverity.ERROR, dg.AssetCheckSeverity.WARN


@pytest.mark.parametrize(
    ("rows", "suite"),
    [
        ([COSTS], RAN),
        ([a_cost_row(money=9.0, started_hours=True).cells()], RAN),
        ([DECISION], suites.decisions),
        ([{**DECISION, "predicted_seconds": None}], suites.decisions),
        ([row for _ in range(20) for row in a_recovery(5.0).cells()], suites.recoveries),
        (CURVE, BY_MONEY),
        (DEARER, BY_UNITS),
        (DEARER, BY_INSTANCES),
        ([DRILL, {**DRILL, "observed_seconds": None}], suites.drills),
        ([INCIDENT, {**INCIDENT, "state": "open", "outcome": None}], suites.incidents),
        ([STEP, {"phase": "intent", "seconds": None}], suites.journal),
        ([], suites.decisions),
    ],
)
def test_tables_that_are_right_pass(rows: Rows, suite: Suite) -> None:
    assert judge(rows, suite).passed


@pytest.mark.parametrize(
    ("rows", "suite", "severity"),
    [
        ([{**COSTS, "share_deployed": 0.5}], RAN, ERROR),
        ([{**COSTS, "money_if_passive": -0.1}], RAN, ERROR),
        ([{**COSTS, "misses": 3}], RAN, ERROR),
        ([COSTS, COSTS], RAN, ERROR),
        ([COSTS], partial(suites.costs, ran=["clicks", "beta"]), ERROR),
        ([a_cost_row(money=9.0).cells()], RAN, WARN),
        ([{**DECISION, "reason": ""}], suites.decisions, ERROR),
        ([{**DECISION, "tier": "fast"}], suites.decisions, ERROR),
        (a_recovery(7.0).cells(), suites.recoveries, WARN),
        (DEARER, BY_MONEY, WARN),
        ([*CURVE, {**CURVE[-1], "objective_seconds": 20.0, "units": 2.0}], BY_UNITS, WARN),
        ([{**CURVE[-1], "predicted_seconds": 11.0}], BY_MONEY, ERROR),
        ([{**COSTS, "memory_gb_hours": -0.1}], RAN, ERROR),
        ([{**DRILL, "held": False}], suites.drills, WARN),
        ([{**DRILL, "observed_seconds": -1.0}], suites.drills, ERROR),
        ([{**INCIDENT, "outcome": None}], suites.incidents, ERROR),
        ([{**INCIDENT, "state": "open", "seconds": 9e9}], suites.incidents, WARN),
        ([{**STEP, "seconds": None}], suites.journal, ERROR),
        ([{**STEP, "phase": "failed"}], suites.journal, WARN),
    ],
)  # fmt: skip
def test_tables_that_are_not_right_fail(
    rows: Rows, suite: Suite, severity: dg.AssetCheckSeverity
) -> None:
    found = judge(rows, suite)
    assert not found.passed
    assert found.severity is severity
