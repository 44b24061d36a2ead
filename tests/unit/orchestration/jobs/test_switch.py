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
def projects(tmp_path: Path) -> SimulatedProjects:
    return simulated_projects(tmp_path, supervision=PATIENT)


def switched(
    projects: SimulatedProjects, config: Mapping[str, object]
) -> dg.ExecuteInProcessResult:
    with projects.open() as project:
        job = build_definitions(project.config, projects).resolve_job_def("switch_tier")
    run_config = {"ops": {"switch": {"config": {"stream": CLICKS, **config}}}}
    return job.execute_in_process(run_config=run_config, raise_on_error=False)


def history(projects: SimulatedProjects) -> list[TierChange]:
    with projects.open() as project:
        return project.store.tiers.history(CLICKS)


def output(result: dg.ExecuteInProcessResult) -> Mapping[str, Any]:
    [event] = [e for e in result.all_events if e.event_type_value == "STEP_OUTPUT"]
    return event.step_output_data.metadata


def failure(result: dg.ExecuteInProcessResult) -> str:
    [event] = [e for e in result.all_events if e.event_type_value == "STEP_FAILURE"]
    return str(event.step_failure_data.user_failure_data)


def test_a_switch_shows_its_steps_and_what_is_covered(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        a_wanted_stream(project)
        a_primary(project, "r1")
        a_secondary(project, observed=SECONDARY[Tier.DEPLOYED])
        url = project.config.control_url
    with following(url, "s1"):
        result = switched(projects, {"tier": "passive_standby_cold", "why": "larger state"})
    assert result.success
    [step] = result.get_asset_observation_events()
    observed = step.asset_observation_data.asset_observation
    assert observed.metadata["step"].value == "TurnSwitch sync on"
    assert str(observed.description).startswith("TurnSwitch sync on took")
    [row] = output(result)["steps"].records
    assert row.data["step"] == "TurnSwitch sync on"
    assert output(result)["covered_tier"].value == "passive_standby_cold"
    change = history(projects)[-1]
    assert (change.tier_to, change.why) == (Tier.PASSIVE_STANDBY_COLD, "larger state")
    assert change.run == result.run_id
    assert change.reached_at is not None


def test_a_dry_run_shows_the_plan_and_changes_nothing(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        a_wanted_stream(project)
        a_primary(project, "r1")
    before = history(projects)
    result = switched(projects, {"tier": "passive_standby_cold", "dry_run": True})
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
    assert history(projects) == before
    with projects.open() as project:
        assert project.store.journal.of(CLICKS) == []
        assert len(project.store.replicas.of(CLICKS)) == 1


def test_a_stopped_stream_is_only_reported(projects: SimulatedProjects) -> None:
    result = switched(projects, {"tier": "deployed"})
    assert result.success
    assert result.get_asset_observation_events() == []
    assert history(projects)[-1].why == "requested in Dagster"
