"""Reports as Dagster asks for them: tables, plots, figures and files."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from holdfast.assets.keys import report_key
from holdfast.assets.reports import activity, decisions, model, what_if
from holdfast.assets.reports.cost_report import report_day
from holdfast.assets.reports.decisions import decision_rows
from holdfast.ft_policies.playbooks.drill import PLAYBOOK, Report
from holdfast.ft_policies.prediction.past import PastPrediction
from holdfast.ft_policies.tiers import Tier
from holdfast.observation.measurements import measure
from holdfast.observation.reports.costs import day_bounds, read_reported_costs
from holdfast.observation.reports.files import read_report, write_report
from holdfast.observation.reports.recoveries import predict_recoveries
from holdfast.orchestration.definitions import build_definitions
from holdfast.orchestration.jobs.reports import daily_costs
from holdfast.resources.birth import FILE
from holdfast.resources.clock import SYSTEM_CLOCK
from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.records import Phase, Sample
from holdfast.resources.project import Project
from tests.builders.reports import a_cost_row, a_running_stream, record_outage, record_takeover
from tests.builders.streams import CLICKS, a_secondary
from tests.builders.tiering import REASON, a_decision, a_decision_row
from tests.fakes.projects import SimulatedProjects, simulated_projects
from tests.fakes.reviewer import simulated_what_if

STREAMS = [CLICKS, "beta"]
REPORTS = (
    "cost_report", "tier_decisions", "recovery_model", "what_if", "drills", "incidents",
    "playbook_journal",
)  # fmt: skip
A_DRILL = {
    "fault": "kill",
    "primary": "p1",
    "tier": "active_standby",
    "objective_seconds": 10.0,
    "predicted_seconds": 4.0,
    "observed_seconds": 3.5,
}


@pytest.fixture
def projects(tmp_path: Path) -> SimulatedProjects:
    return simulated_projects(tmp_path, CLICKS, "beta")


def ran(projects: SimulatedProjects, job: str, day: str | None = None) -> dg.ExecuteInProcessResult:
    with projects.open() as project:
        definitions = build_definitions(project.config, projects)
    return definitions.resolve_job_def(job).execute_in_process(partition_key=day)


def made(projects: SimulatedProjects, report: dg.AssetsDefinition) -> Any:
    """Materialise a report; its metadata."""
    result = dg.materialize([report], resources={"projects": projects})
    (materialised,) = result.asset_materializations_for_node(report.node_def.name)
    return materialised.metadata


def days(projects: SimulatedProjects) -> list[str]:
    """The days of which Dagster offers a cost report."""
    with projects.open() as project:
        definitions = build_definitions(project.config, projects)
    partitions = definitions.resolve_assets_def(report_key("cost_report")).partitions_def
    return [] if partitions is None else list(partitions.get_partition_keys())


def store_report(projects: SimulatedProjects, day: str) -> None:
    with projects.open() as project:
        write_report(project.config.home, "cost_report", [], part=day)


def rows_of(metadata: Any, table: str) -> list[dict[str, Any]]:
    return [dict(record.data) for record in metadata[table].records]


def a_past(projects: SimulatedProjects) -> None:
    """A stream that runs and was decided on and has recovered, and one that should not run."""
    with projects.open() as project:
        a_running_stream(project)
        earlier = project.store.now() - 60.0
        project.store.decisions.write(a_decision_row(a_decision(at=earlier)))
        record_takeover(project, 12.0)
        record_outage(project, 12.0, detect_seconds=1.0)


def stand_by(project: Project, tier: Tier) -> None:
    """From here on a secondary has reached a tier."""
    project.store.tiers.desire(CLICKS, tier, why="test", run="")
    project.store.tiers.record_reached(CLICKS, tier=tier)
    a_secondary(project, "r2")


def test_reports_are_made_also_without_any_rows(projects: SimulatedProjects) -> None:
    store_report(projects, "2026-01-01")
    results = [ran(projects, "report_costs", "2026-01-02"), ran(projects, "report_now")]
    keys = [
        event.asset_key for result in results for event in result.get_asset_materialization_events()
    ]
    assert set(keys) == set(map(report_key, REPORTS))
    with projects.open() as project:
        assert read_report(project.config.home, "cost_report", part="2026-01-02") == []
        assert read_report(project.config.home, "what_if") == []


def test_costs_are_reported_from_the_first_day_of_the_project_to_today(
    projects: SimulatedProjects,
) -> None:
    today = datetime.fromtimestamp(SYSTEM_CLOCK.now(), UTC).date()
    assert days(projects) == [str(today)]
    with projects.open() as project:
        home = project.config.home
    (home / FILE).write_text(f"{today - timedelta(days=2)}\n")
    assert days(projects) == [str(today - timedelta(days=ago)) for ago in (2, 1, 0)]
    store_report(projects, str(today - timedelta(days=3)))
    assert len(days(projects)) == 4, "its home was replaced since"
    assert ran(projects, "report_costs", str(today)).success


def test_a_day_has_a_row_for_each_stream_that_ran_and_sums(projects: SimulatedProjects) -> None:
    a_past(projects)
    with projects.open() as project:
        today = datetime.fromtimestamp(project.store.now(), UTC).date()
        result = report_day(project, STREAMS, today)
    assert result.metadata is not None
    (row,) = rows_of(result.metadata, "streams")
    assert (row["stream"], row["share_passive_replication"], row["misses"]) == (CLICKS, 1.0, 1)
    assert result.metadata["spent_USD"] == pytest.approx(row["money"], rel=1e-4)
    assert result.metadata["streams_not_counted"] == "none"
    file = Path(result.metadata["file"].value)
    assert file.name == "today_so_far.csv"
    assert file.with_suffix(".png").exists()
    with projects.open() as project:
        assert read_reported_costs(project, today, STREAMS) is None, "today is not over"


def test_a_day_names_the_streams_that_ran_and_have_no_row(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        a_running_stream(project)
        now = project.store.now()
        past = datetime.fromtimestamp(now - 30 * 86_400.0, UTC).date()
        noon = day_bounds(past)[0] + 43_200.0
        sample = Sample(stream=CLICKS, replica="r1", name="cpu_cores", value=2.0, at=noon)
        project.store.samples.write([sample])
        write_report(project.config.home, "cost_report", [], part=str(past))
        result = report_day(project, STREAMS, past)
    assert result.metadata is not None
    assert result.metadata["streams_not_counted"] == CLICKS


def test_decisions_are_a_table(projects: SimulatedProjects) -> None:
    a_past(projects)
    (row,) = rows_of(made(projects, decisions.definition(STREAMS)), "rows")
    assert row["tier"] == "passive_standby_hot"


def test_recoveries_are_summed_up_by_tier_and_step(projects: SimulatedProjects) -> None:
    a_past(projects)
    with projects.open() as project:
        stand_by(project, Tier.PASSIVE_STANDBY_HOT)
        record_takeover(project, 12.0, by="r3", at=project.store.now() + 100.0)
    metadata = made(projects, model.definition(STREAMS))
    rows = rows_of(metadata, "recoveries")
    assert {row["step"]: row["held"] for row in rows} == dict.fromkeys(
        ("all", "detect", "wire_send", "replay"), True
    )
    summed = {row["step"]: row for row in rows_of(metadata, "by_tier_and_step")}
    assert (summed["all"]["tier"], summed["all"]["recoveries"]) == ("passive_standby_hot", 1)
    assert 12.0 < summed["all"]["median_predicted_seconds"] < 30.0, "uncalibrated: with a margin"
    assert metadata["held_share"].value == 1.0
    assert metadata["plot"].value.startswith("![Recoveries")


def test_other_objectives_are_priced_for_streams_that_should_run(
    projects: SimulatedProjects,
) -> None:
    a_past(projects)
    metadata = made(projects, what_if.definition(STREAMS, simulated_what_if))
    rows = rows_of(metadata, "objectives")
    assert {row["stream"] for row in rows} == {CLICKS}
    assert [row["tier"] for row in rows if row["objective_seconds"] in (0.0, 60.0)] == [
        "active_replication",
        "passive_replication",
    ]


def test_what_went_wrong_is_counted(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        line = {"stream": CLICKS, "run": "run-1", "seconds": 0.25}
        for held in (True, False):
            detail = {**A_DRILL, "held": held}
            step = {"playbook": PLAYBOOK, "step": Report.name, "phase": Phase.DONE}
            project.store.journal.write(**line, **step, detail=detail)
        step = {"playbook": "recover", "step": "Launch", "phase": Phase.FAILED}
        project.store.journal.write(**line, **step, detail={"error": "no room"})
        project.store.incidents.open(stream=CLICKS, key="k", kind=IncidentKind.RECOVERY, detail={})
    drills, incidents, journal = (
        made(projects, report) for report in activity.definitions(STREAMS)
    )
    assert drills["not_held"].value == 1
    assert incidents["open"].value == 1
    assert journal["failed"].value == 1


def test_decisions_are_listed_with_their_reasons_newest_first(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        a_running_stream(project)
        for at in (1_000.0, 2_000.0):
            project.store.decisions.write(a_decision_row(a_decision(at=at)))
        unreadable = replace(a_decision_row(a_decision(at=3_000.0)), record={})
        project.store.decisions.write(unreadable)
        rows = decision_rows(project, [CLICKS, "beta"])
    assert [row["at"] for row in rows] == [2_000.0, 1_000.0]
    assert (rows[0]["reason"], rows[0]["run"]) == (REASON, "run-1")
    assert (rows[0]["tier_before"], rows[0]["tier"], rows[0]["predicted_seconds"]) == (
        "active_replication",
        "passive_standby_hot",
        6.2,
    )


def predicted(project: Project) -> list[PastPrediction]:
    declared = project.config.stream(CLICKS)
    measured = measure(project.store, [declared])[CLICKS]
    return predict_recoveries(project.store, declared, measured)


def test_a_prediction_is_held_against_what_came(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        a_running_stream(project)
        assert predicted(project) == []
        stand_by(project, Tier.PASSIVE_STANDBY_HOT)
        now = project.store.now()
        record_takeover(project, 4.0, rows=10.0, at=now + 100.0)
        assert predicted(project) == [], "it is the first"
        record_takeover(project, 12.0, by="r3", rows=40.0, at=now + 200.0)
        (recovery,) = predicted(project)
    recovered = recovery.recovered
    assert (recovered.tier, recovered.seconds) == (Tier.PASSIVE_STANDBY_HOT, 12.0)
    assert 8.0 < recovery.seconds < 30.0, "four times the rows of the one that took 4 s"


def test_a_day_that_was_reported_outlives_its_measurements(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        a_running_stream(project)
        part = str(datetime.fromtimestamp(project.store.now() - 30 * 86_400.0, UTC).date())
        rows = [a_cost_row().cells()]
        write_report(project.config.home, "cost_report", rows, part=part)
        result = report_day(project, ["beta"], date.fromisoformat(part))
        assert result.metadata is not None
        assert result.metadata["dagster/row_count"] == 0
        assert read_report(project.config.home, "cost_report", part=part) == rows


def test_yesterday_is_reported_after_midnight() -> None:
    context = dg.build_schedule_context(
        scheduled_execution_time=datetime(2026, 3, 1, 0, 5, tzinfo=UTC)
    )
    request = daily_costs(context)
    assert isinstance(request, dg.RunRequest)
    assert (request.partition_key, request.run_key) == ("2026-02-28", "costs-2026-02-28")
