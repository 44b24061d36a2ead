"""What every row of a report table holds to: no negative figure, no NaN, no line without its reason."""

from collections.abc import Mapping
from math import inf, isfinite
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from holdfast.assets.reports.activity import journal_rows
from holdfast.assets.reports.decisions import cells as decision_cells
from holdfast.ft_policies.costs.report import Cell
from holdfast.ft_policies.tiering.decision import WhatIf
from holdfast.ft_policies.tiers import Tier
from holdfast.observation.reports.incidents import incident_rows
from holdfast.observation.reports.recoveries import build_comparison
from holdfast.observation.reports.what_if import OBJECTIVES, what_if_cells
from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.records import Phase
from tests.builders.reports import a_day, a_recovery
from tests.builders.streams import CLICKS
from tests.builders.tiering import a_decision, a_decision_row
from tests.fakes.projects import simulated_projects
from tests.fakes.reviewer import simulated_what_if

AMOUNTS = (
    "money", "money_if_active", "money_if_passive",
    "unit_hours", "unit_hours_if_active", "unit_hours_if_passive",
    "cpu_core_hours", "memory_gb_hours", "network_gb", "instance_hours", "requests",
)  # fmt: skip
TIERS_OF_A_DAY = st.lists(st.sampled_from(Tier), min_size=1, max_size=6)
RECOVERIES = st.lists(st.floats(0.0, 100.0), max_size=5)


def figures(row: Mapping[str, Cell]) -> list[float]:
    return [value for value in row.values() if isinstance(value, float)]


@given(tiers=TIERS_OF_A_DAY, recoveries=RECOVERIES, started_hours=st.booleans())
def test_a_day_adds_up_and_costs_no_more_than_in_its_dearest_tier(
    tiers: list[Tier],
    recoveries: list[float],
    started_hours: bool,  # noqa: FBT001
) -> None:
    each = 24.0 / len(tiers)
    spans = [(tier, n * each, (n + 1) * each) for n, tier in enumerate(tiers)]
    day = a_day(*spans, recoveries=recoveries, started_hours=started_hours)
    row = day.cells()
    assert sum(float(row[f"share_{tier}"] or 0.0) for tier in Tier) == pytest.approx(1.0)
    assert all(float(row[name] or 0.0) >= 0.0 for name in AMOUNTS)
    assert all(map(isfinite, figures(row)))
    assert day.misses <= day.recoveries
    if not started_hours:
        dearest = max(a_day((tier, 0.0, 24.0)).money for tier in tiers)
        assert day.money <= dearest * (1.0 + 1e-9)


def test_a_decision_has_its_reason_a_tier_and_figures_that_can_be() -> None:
    row = decision_cells(a_decision_row(a_decision()))
    assert row["reason"]
    assert row["tier"] in set(Tier)
    assert float(row["predicted_seconds"] or 0.0) >= 0.0
    assert float(row["money_per_hour"] or 0.0) >= 0.0
    assert all(map(isfinite, figures(row)))


def test_an_objective_that_is_held_is_predicted_to_be_in_time(tmp_path: Path) -> None:
    with simulated_projects(tmp_path).open() as project:
        rows = what_if_cells(simulated_what_if(project, CLICKS, OBJECTIVES), currency="USD")
    held = [row for row in rows if row["holds"]]
    assert held
    assert all(
        float(row["predicted_seconds"] or 0.0) <= float(row["objective_seconds"] or 0.0)
        for row in held
    )
    money = [float(row["money_per_hour"] or 0.0) for row in held]
    assert money == sorted(money, reverse=True)
    assert min(money) >= 0.0


def test_a_figure_that_is_not_known_is_empty_and_not_infinite() -> None:
    point = WhatIf(
        objective_seconds=0.0,
        tier=Tier.PASSIVE_REPLICATION,
        seconds=inf,
        money_per_hour=inf,
        weighted=inf,
        holds=False,
        snapshot_every=inf,
        sync_every=inf,
    )
    (row,) = what_if_cells([point], currency="USD")
    assert figures(row) == [0.0]


def test_a_recovery_is_held_if_it_took_no_longer_than_predicted() -> None:
    whole, *steps = build_comparison(a_recovery(7.0))
    assert (whole["step"], whole["held"]) == ("all", False)
    assert build_comparison(a_recovery(5.0))[0]["held"] is True
    assert all(figure >= 0.0 for row in (whole, *steps) for figure in figures(row))


def test_a_closed_incident_has_an_outcome_and_a_step_that_ended_its_seconds(
    tmp_path: Path,
) -> None:
    with simulated_projects(tmp_path).open() as project:
        incident = project.store.incidents.open(
            stream=CLICKS, key="k", kind=IncidentKind.RECOVERY, detail={}
        )
        line = {"stream": CLICKS, "playbook": "recover", "run": "r", "step": "Fence"}
        project.store.journal.write(**line, phase=Phase.INTENT)  # type: ignore[arg-type]
        project.store.journal.write(**line, phase=Phase.DONE, seconds=0.5)  # type: ignore[arg-type]
        [still_open] = incident_rows(project, [CLICKS])
        project.store.incidents.close(incident.id, "recovered")
        [closed] = incident_rows(project, [CLICKS])
        done, intent = journal_rows(project, [CLICKS])
    assert (still_open["state"], still_open["outcome"]) == ("open", None)
    assert (closed["state"], closed["outcome"]) == ("closed", "recovered")
    assert float(closed["seconds"] or 0.0) >= 0.0
    assert (done["seconds"], intent["seconds"]) == (0.5, None)
