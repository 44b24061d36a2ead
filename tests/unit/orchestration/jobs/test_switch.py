"""The job `switch_tier`, run in this process on a stream whose drivers are simulated."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from holdfast.ft_policies.tiers import SECONDARY, Tier
from holdfast.orchestration.definitions import build_definitions
from holdfast.resources.control_store.records import TierChange
from tests.builders.streams import CLICKS, a_primary, a_secondary, a_wanted_stream
from tests.fakes.followers import PATIENT, following
from tests.fakes.projects import SimulatedProjects, simulated_projects


@pytest.fixture
def worlds(tmp_path: Path) -> SimulatedProjects:
    return simulated_projects(tmp_path, supervision=PATIENT)


def switched(worlds: SimulatedProjects, config: Mapping[str, object]) -> dg.ExecuteInProcessResult:
    with worlds.open() as world:
        job = build_definitions(world.config, worlds).resolve_job_def("switch_tier")
    run_config = {"ops": {"switch": {"config": {"stream": CLICKS, **config}}}}
    return job.execute_in_process(run_config=run_config, raise_on_error=False)


def history(worlds: SimulatedProjects) -> list[TierChange]:
    with worlds.open() as world:
        return world.store.tiers.history(CLICKS)


def output(result: dg.ExecuteInProcessResult) -> Mapping[str, Any]:
    [event] = [e for e in result.all_events if e.event_type_value == "STEP_OUTPUT"]
    return event.step_output_data.metadata


def failure(result: dg.ExecuteInProcessResult) -> str:
    [event] = [e for e in result.all_events if e.event_type_value == "STEP_FAILURE"]
    return str(event.step_failure_data.user_failure_data)


def test_a_switch_shows_its_steps_and_what_is_covered(worlds: SimulatedProjects) -> None:
    with worlds.open() as world:
        a_wanted_stream(world)
        a_primary(world, "r1")
        a_secondary(world, observed=SECONDARY[Tier.DEPLOYED])
        url = world.config.control_url
    with following(url, "s1"):
        result = switched(worlds, {"tier": "passive_standby_cold", "why": "larger state"})
    assert result.success
    [step] = result.get_asset_observation_events()
    observed = step.asset_observation_data.asset_observation
    assert observed.metadata["step"].value == "TurnSwitch sync on"
    assert str(observed.description).startswith("TurnSwitch sync on took")
    [row] = output(result)["steps"].records
    assert row.data["step"] == "TurnSwitch sync on"
    assert output(result)["covered_tier"].value == "passive_standby_cold"
    change = history(worlds)[-1]
    assert (change.tier_to, change.why) == (Tier.PASSIVE_STANDBY_COLD, "larger state")
    assert change.run == result.run_id
    assert change.reached_at is not None


def test_a_dry_run_shows_the_plan_and_changes_nothing(worlds: SimulatedProjects) -> None:
    with worlds.open() as world:
        a_wanted_stream(world)
        a_primary(world, "r1")
    before = history(worlds)
    result = switched(worlds, {"tier": "passive_standby_cold", "dry_run": True})
    assert result.success
    plan = [record.data for record in output(result)["plan"].records]
    assert [row["step"] for row in plan] == [
        "LaunchSecondary",
        "TurnSwitch deploy on",
        "TurnSwitch sync on",
    ]
    assert plan[0]["does"] == "starts a second driver, with nothing on but `deploy`"
    assert output(result)["tier"].value == "passive_replication"
    assert result.get_asset_observation_events() == []
    assert history(worlds) == before
    with worlds.open() as world:
        assert world.store.journal.of(CLICKS) == []
        assert len(world.store.replicas.of(CLICKS)) == 1


def test_a_stopped_stream_is_only_told(worlds: SimulatedProjects) -> None:
    result = switched(worlds, {"tier": "deployed"})
    assert result.success
    assert result.get_asset_observation_events() == []
    assert history(worlds)[-1].why == "requested in Dagster"


def test_an_unknown_tier_is_a_failure_that_says_which_there_are(worlds: SimulatedProjects) -> None:
    result = switched(worlds, {"tier": "deploy"})
    assert not result.success
    assert "did you mean deployed?" in failure(result)
    assert history(worlds) == []
