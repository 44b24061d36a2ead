"""`holdfast costs`: days added up, for users and for programs."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from holdfast.observation.reports.costs import REPORT
from holdfast.observation.reports.files import write_report
from holdfast.resources.project import Project
from tests.builders.recorded_stream import STREAM, a_running_stream, an_open_project
from tests.builders.reports import a_cost_row
from tests.cli import holdfast_json, run_holdfast


def reported(project: Project, *, days_ago: int) -> str:
    """A day that was counted."""
    today = datetime.fromtimestamp(project.store.now(), UTC).date()
    day = str(today - timedelta(days=days_ago))
    write_report(project.config.home, REPORT, [a_cost_row().cells()], part=day)
    return day


def test_nothing_ran_nothing_spent(tmp_path: Path) -> None:
    with an_open_project(tmp_path):
        result = run_holdfast(tmp_path, "costs")
        output = holdfast_json(tmp_path, "costs")
    assert "no stream ran on" in result.output
    assert output["streams"] == []


def test_today_is_counted_so_far(tmp_path: Path) -> None:
    with an_open_project(tmp_path) as project:
        a_running_stream(project)
        (row,) = holdfast_json(tmp_path, "costs", STREAM)["streams"]
    assert (row["stream"], row["share_passive_replication"]) == (STREAM, 1.0)
    assert row["recoveries"] == 0


def test_a_day_is_shown_with_its_tiers_its_money_and_its_misses(tmp_path: Path) -> None:
    with an_open_project(tmp_path) as project:
        day = reported(project, days_ago=3)
        result = run_holdfast(tmp_path, "costs", "--day", day)
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert lines[0] == f"fault tolerance on {day} (UTC)"
    assert lines[2].startswith("clicks 24 h passive_standby_hot 50 % 1.2 USD 2.4 USD 0.2")
    assert lines[2].endswith("50 % 24 1")
    assert lines[3] == "passive_replication 50 % of 96 of 2, over 10 s"


def test_days_are_added_up(tmp_path: Path) -> None:
    with an_open_project(tmp_path) as project:
        for days_ago in (1, 2, 9):
            reported(project, days_ago=days_ago)
        output = holdfast_json(tmp_path, "costs", "--days", "4")
    assert len(output["days"]) == 4
    (row,) = output["streams"]
    assert (row["money"], row["recoveries"], row["misses"]) == (2.4, 4, 2)
    assert row["ran_seconds"] == 2 * 86_400.0


def test_tomorrow_has_not_begun(tmp_path: Path) -> None:
    with an_open_project(tmp_path) as project:
        a_running_stream(project)
        tomorrow = datetime.fromtimestamp(project.store.now(), UTC).date() + timedelta(days=1)
        result = run_holdfast(tmp_path, "costs", "--day", str(tomorrow))
    assert result.exit_code == 1
    assert "has not begun" in result.output


def test_a_wrong_day_is_wrong_usage(tmp_path: Path) -> None:
    with an_open_project(tmp_path):
        assert run_holdfast(tmp_path, "costs", "--day", "yesterday").exit_code == 2
        both = run_holdfast(tmp_path, "costs", "--day", "2026-01-02", "--days", "2")
        unknown = run_holdfast(tmp_path, "costs", "clics")
        endless = run_holdfast(tmp_path, "costs", "--days", "99999999999")
        last = run_holdfast(tmp_path, "costs", "--day", "9999-12-31")
    assert (both.exit_code, endless.exit_code, last.exit_code) == (2, 2, 2)
    assert unknown.exit_code == 1
    assert "declared are clicks" in unknown.output
