"""A job with `dry_run` shows what each step would do on its run's page, and does none of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from holdfast.observation.status import observe_stream
from holdfast.orchestration.definitions import build_definitions
from holdfast.resources.control_store.records import ReplicaState
from tests.builders.control_rows import a_snapshot
from tests.builders.streams import CLICKS, PATIENT, a_primary, a_wanted_stream, commit_epochs
from tests.fakes.projects import SimulatedProjects, simulated_projects


@pytest.fixture
def projects(tmp_path: Path) -> SimulatedProjects:
    return simulated_projects(tmp_path, supervision=PATIENT)


def plan(projects: SimulatedProjects, job: str, op: str) -> list[Mapping[str, Any]]:
    """The plan that a dry run shows, of a job that must do nothing."""
    with projects.open() as project:
        definitions = build_definitions(project.config, projects)
    result = definitions.resolve_job_def(job).execute_in_process(
        run_config={"ops": {op: {"config": {"stream": CLICKS, "dry_run": True}}}}
    )
    assert result.get_asset_observation_events() == []
    with projects.open() as project:
        assert project.store.journal.of(CLICKS) == []
    assert "ensure" not in projects.objects.calls
    [output] = [e for e in result.all_events if e.event_type_value == "STEP_OUTPUT"]
    shown = output.step_output_data.metadata["plan"]
    assert isinstance(shown, dg.TableMetadataValue)
    return [record.data for record in shown.records]


def names(rows: list[Mapping[str, Any]]) -> list[str]:
    return [row["step"] for row in rows]


def test_a_start_is_planned_before_the_stream_is_declared(projects: SimulatedProjects) -> None:
    rows = plan(projects, "start_stream", "start")
    assert names(rows) == ["Launch", "AwaitCatchUp"]
    assert rows[0]["does"] == "starts a new primary from the newest snapshot"
    with projects.open() as project:
        assert project.store.streams.get(CLICKS) is None


def test_a_stop_is_planned_and_the_stream_runs_on(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        a_wanted_stream(project)
        a_primary(project, "p1")
    rows = plan(projects, "stop_stream", "stop")
    assert names(rows) == ["RequestExit", "AwaitExit"]
    assert str(rows[0]["does"]).startswith("asks p1 to finish its epoch")
    with projects.open() as project:
        assert observe_stream(project, CLICKS).wanted


def test_a_recovery_is_planned_and_no_primary_is_fenced(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        a_wanted_stream(project)
        a_primary(project, "p1", alive=False)
    rows = plan(projects, "recover_stream", "recover")
    assert names(rows) == ["Fence", "Launch", "AwaitCatchUp"]
    with projects.open() as project:
        [row] = project.store.replicas.of(CLICKS, live=False)
    assert row.state is not ReplicaState.FENCED


def test_a_proof_is_planned_and_no_snapshot_is_proven(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        a_wanted_stream(project)
        commit_epochs(project, 3)
        project.store.snapshots.record(a_snapshot("s1", 1, stream=CLICKS))
    rows = plan(projects, "prove_snapshot", "prove")
    assert names(rows) == ["RestoreScratch", "Recompute", "RecordProof"]
    assert rows[0]["does"] == "restores s1 into a scratch folder, every digest verified"
    with projects.open() as project:
        [row] = project.store.snapshots.of(CLICKS)
    assert row.proven_at is None
