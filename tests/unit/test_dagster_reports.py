"""Reports as Dagster asks for them; those with rows need Great Expectations, and are tested elsewhere."""

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import dagster as dg
import pytest

from assets.keys import report_key
from assets.reports.checking import judge
from assets.reports.costs import report
from assets.reports.decisions import decision_rows
from assets.reports.model import compared_of
from assets.reports.storing import store, stored
from assets.reports.suites import decisions
from ft_policies.tiers import Tier
from orchestration.definitions import definitions_of
from orchestration.reports import daily_costs
from streaming.measuring import measure
from tests.fakes.decisions import REASON, a_decision, a_decision_row
from tests.fakes.worlds import CLICKS, SimulatedWorlds, simulated_worlds
from tests.support.control_builders import wait_for_the_clock
from tests.support.reports import a_cost_row, a_stream_that_runs, taken_over


@pytest.fixture
def worlds(tmp_path: Path) -> SimulatedWorlds:
    return simulated_worlds(tmp_path, CLICKS, "beta")


def ran(worlds: SimulatedWorlds, job: str, day: str | None = None) -> dg.ExecuteInProcessResult:
    with worlds.open() as world:
        definitions = definitions_of(world.project, worlds)
    return definitions.resolve_job_def(job).execute_in_process(partition_key=day)


def test_reports_are_made_and_checked_also_when_there_is_nothing_to_say(
    worlds: SimulatedWorlds,
) -> None:
    results = [ran(worlds, "report_costs", "2026-01-02"), ran(worlds, "report_now")]
    evaluations = [one for result in results for one in result.get_asset_check_evaluations()]
    assert {one.asset_key: one.passed for one in evaluations} == {
        report_key(report): True
        for report in (
            "cost_report",
            "tier_decisions",
            "recovery_model",
            "what_if",
            "drills",
            "incidents",
            "playbook_journal",
        )
    }
    assert {one.description for one in evaluations} == {"there are no rows"}
    with worlds.open() as world:
        assert stored(world.project.home, "cost_report", part="2026-01-02") == []
        assert stored(world.project.home, "what_if") == []


def test_a_report_without_the_streams_that_ran_is_wrong() -> None:
    found = judge([], decisions, demanded=["clicks", "beta"])
    assert not found.passed
    assert found.description == "no row, but clicks, beta ran"


def test_decisions_are_listed_with_their_reasons_newest_first(worlds: SimulatedWorlds) -> None:
    with worlds.open() as world:
        a_stream_that_runs(world)
        for at in (1_000.0, 2_000.0):
            world.store.decisions.write(a_decision_row(a_decision(at=at)))
        unreadable = replace(a_decision_row(a_decision(at=3_000.0)), record={})
        world.store.decisions.write(unreadable)
        rows = decision_rows(world, [CLICKS, "beta"])
    assert [row["at"] for row in rows] == [2_000.0, 1_000.0]
    assert (rows[0]["reason"], rows[0]["run"]) == (REASON, "run-1")
    assert (rows[0]["tier_before"], rows[0]["tier"], rows[0]["predicted_seconds"]) == (
        "active_replication",
        "passive_standby_hot",
        6.2,
    )


def test_a_prediction_is_held_against_what_came(worlds: SimulatedWorlds) -> None:
    with worlds.open() as world:
        a_stream_that_runs(world)
        declared = world.project.stream(CLICKS)
        assert compared_of(world, measure(world.store, [declared])[CLICKS]) == []
        world.store.tiers.desire(CLICKS, Tier.ACTIVE_STANDBY, why="test", run="")
        wait_for_the_clock(world.store)
        now = world.store.now()
        taken_over(world, 4.0, rows=10.0, at=now + 100.0)
        assert compared_of(world, measure(world.store, [declared])[CLICKS]) == [], "it is the first"
        taken_over(world, 12.0, by="r3", rows=40.0, at=now + 200.0)
        (one,) = compared_of(world, measure(world.store, [declared])[CLICKS])
    assert (one.tier, one.observed_seconds) == (Tier.ACTIVE_STANDBY, 12.0)
    assert 8.0 < one.predicted_seconds < 30.0, "four times the rows of the one that took 4 s"


def test_a_day_that_was_reported_outlives_its_measurements(worlds: SimulatedWorlds) -> None:
    with worlds.open() as world:
        a_stream_that_runs(world)
        part = str(datetime.fromtimestamp(world.store.now() - 30 * 86_400.0, UTC).date())
        rows = [a_cost_row().cells()]
        store(world.project.home, "cost_report", rows, part=part)
        found = report(world, ["beta"], date.fromisoformat(part))
        assert found.metadata is not None
        assert found.metadata["dagster/row_count"] == 0
        assert stored(world.project.home, "cost_report", part=part) == rows


def test_yesterday_is_reported_after_midnight() -> None:
    context = dg.build_schedule_context(
        scheduled_execution_time=datetime(2026, 3, 1, 0, 5, tzinfo=UTC)
    )
    request = daily_costs(context)
    assert isinstance(request, dg.RunRequest)
    assert (request.partition_key, request.run_key) == ("2026-02-28", "costs-2026-02-28")
