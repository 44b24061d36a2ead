"""The tier review sensor: a run for each stream that should have another tier, however often it looks."""

from pathlib import Path

import dagster as dg
import pytest

from holdfast.ft_policies.errors import TransientError
from holdfast.ft_policies.tiers import Tier
from holdfast.orchestration.sensors.recovery import tier_review_sensor
from holdfast.resources.control_store.records import LedgerEntry
from tests.builders.reviews import AT_ONCE, record_decision_by_hand
from tests.builders.streams import CLICKS, a_primary, a_wanted_stream
from tests.fakes.projects import SimulatedProjects, simulated_projects


@pytest.fixture
def projects(tmp_path: Path) -> SimulatedProjects:
    """A stream of which nothing is known: it should have the fastest tier."""
    projects = simulated_projects(tmp_path, controller=AT_ONCE)
    with projects.open() as project:
        a_wanted_stream(project)
        a_primary(project, "p1")
        project.store.ledger.commit(
            LedgerEntry(stream=CLICKS, epoch=0, replica="p1", token=1, rows=1, digest="d")
        )
    return projects


def tick(projects: SimulatedProjects) -> dg.SensorResult:
    """One evaluation, as a daemon of its own would do it."""
    result = tier_review_sensor(projects=projects)
    assert isinstance(result, dg.SensorResult)
    return result


def skipped(projects: SimulatedProjects) -> str | None:
    result = tick(projects)
    assert not result.run_requests
    return None if result.skip_reason is None else result.skip_reason.skip_message


def test_the_request_names_the_job_the_stream_the_tier_and_why(projects: SimulatedProjects) -> None:
    [request] = tick(projects).run_requests or []
    with projects.open() as project:
        [decision] = project.store.decisions.history(CLICKS)
    assert tier_review_sensor.job_name == "switch_tier"
    assert request.run_config["ops"]["switch"]["config"] == {
        "stream": CLICKS,
        "tier": "active_replication",
        "why": decision.reason,
        "dry_run": False,
    }
    assert request.tags["holdfast/stream"] == CLICKS
    assert request.tags["holdfast/cause"] == "tier_review"


def test_many_ticks_and_daemons_ask_under_one_key(projects: SimulatedProjects) -> None:
    keys = {str(request.run_key) for _ in range(5) for request in tick(projects).run_requests or []}
    with projects.open() as project:
        [decision] = project.store.decisions.history(CLICKS)
    assert keys == {f"{CLICKS}-{decision.id}-0"}


def test_a_stream_that_has_what_it_should_have_is_left_alone(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        project.store.tiers.desire(CLICKS, Tier.ACTIVE_REPLICATION, why="test", run="")
    assert skipped(projects) == "no switch is due"


def test_a_new_stream_gets_no_other_tier_before_its_first_commit(tmp_path: Path) -> None:
    projects = simulated_projects(tmp_path, controller=AT_ONCE)
    with projects.open() as project:
        a_wanted_stream(project)
        a_primary(project, "p1")
    assert skipped(projects) == "no switch is due"


def test_a_record_that_cannot_be_read_stops_no_review(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        record_decision_by_hand(project, Tier.ACTIVE_REPLICATION)
    assert len(tick(projects).run_requests or []) == 1


def test_a_control_store_that_is_away_is_a_skipped_tick(projects: SimulatedProjects) -> None:
    projects.failures.append(TransientError("locked", hint="wait"))
    assert skipped(projects) == "locked (wait)"
    assert len(tick(projects).run_requests or []) == 1
