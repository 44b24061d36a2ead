"""The tier review sensor: a run for each stream that should have another tier, however often it looks."""

from pathlib import Path

import dagster as dg
import pytest

from holdfast.ft_policies.errors import TransientError
from holdfast.ft_policies.tiers import Tier
from holdfast.orchestration.sensors.recovery import tier_review_sensor
from tests.builders.reviews import AT_ONCE, record_decision_by_hand
from tests.builders.streams import CLICKS, a_primary, a_wanted_stream
from tests.fakes.projects import SimulatedProjects, simulated_projects


@pytest.fixture
def worlds(tmp_path: Path) -> SimulatedProjects:
    """A stream of which nothing is known: it should have the fastest tier."""
    worlds = simulated_projects(tmp_path, controller=AT_ONCE)
    with worlds.open() as world:
        a_wanted_stream(world)
        a_primary(world, "p1")
    return worlds


def tick(worlds: SimulatedProjects) -> dg.SensorResult:
    """One evaluation, as a daemon of its own would do it."""
    result = tier_review_sensor(worlds=worlds)
    assert isinstance(result, dg.SensorResult)
    return result


def skipped(worlds: SimulatedProjects) -> str | None:
    result = tick(worlds)
    assert not result.run_requests
    return None if result.skip_reason is None else result.skip_reason.skip_message


def test_the_request_names_the_job_the_stream_the_tier_and_why(worlds: SimulatedProjects) -> None:
    [request] = tick(worlds).run_requests or []
    with worlds.open() as world:
        [decision] = world.store.decisions.history(CLICKS)
    assert tier_review_sensor.job_name == "switch_tier"
    assert request.run_config["ops"]["switch"]["config"] == {
        "stream": CLICKS,
        "tier": "active_replication",
        "why": decision.reason,
        "dry_run": False,
    }
    assert request.tags["holdfast/stream"] == CLICKS
    assert request.tags["holdfast/cause"] == "tier_review"


def test_many_ticks_and_daemons_ask_under_one_key(worlds: SimulatedProjects) -> None:
    keys = {str(one.run_key) for _ in range(5) for one in tick(worlds).run_requests or []}
    with worlds.open() as world:
        [decision] = world.store.decisions.history(CLICKS)
    assert keys == {f"{CLICKS}-{decision.id}-0"}


def test_a_stream_that_has_what_it_should_have_is_left_alone(worlds: SimulatedProjects) -> None:
    with worlds.open() as world:
        world.store.tiers.desire(CLICKS, Tier.ACTIVE_REPLICATION, why="test", run="")
    assert skipped(worlds) == "no switch is due"


def test_a_record_that_nobody_can_read_stops_no_review(worlds: SimulatedProjects) -> None:
    with worlds.open() as world:
        record_decision_by_hand(world, Tier.ACTIVE_REPLICATION)
    assert len(tick(worlds).run_requests or []) == 1


def test_a_control_store_that_is_away_is_a_skipped_tick(worlds: SimulatedProjects) -> None:
    worlds.failures.append(TransientError("locked", hint="wait"))
    assert skipped(worlds) == "locked (wait)"
    assert len(tick(worlds).run_requests or []) == 1
