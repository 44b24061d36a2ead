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
def worlds(tmp_path: Path) -> SimulatedProjects:
    return simulated_projects(tmp_path, supervision=PATIENT)


def plan(worlds: SimulatedProjects, job: str, op: str) -> list[Mapping[str, Any]]:
    """The plan that a dry run shows, of a job that must do nothing."""
    with worlds.open() as world:
        definitions = build_definitions(world.config, worlds)
    result = definitions.resolve_job_def(job).execute_in_process(
        run_config={"ops": {op: {"config": {"stream": CLICKS, "dry_run": True}}}}
    )
    assert result.get_asset_observation_events() == []
    with worlds.open() as world:
        assert world.store.journal.of(CLICKS) == []
    assert "ensure" not in worlds.objects.calls
    [output] = [e for e in result.all_events if e.event_type_value == "STEP_OUTPUT"]
    shown = output.step_output_data.metadata["plan"]
    assert isinstance(shown, dg.TableMetadataValue)
    return [record.data for record in shown.records]


def names(rows: list[Mapping[str, Any]]) -> list[str]:
    return [row["step"] for row in rows]


def test_a_start_is_planned_before_the_stream_is_declared(worlds: SimulatedProjects) -> None:
    rows = plan(worlds, "start_stream", "start")
    assert names(rows) == ["Launch", "AwaitCatchUp"]
    assert rows[0]["does"] == "starts a new primary from the newest snapshot"
    with worlds.open() as world:
        assert world.store.streams.get(CLICKS) is None


def test_a_stop_is_planned_and_the_stream_runs_on(worlds: SimulatedProjects) -> None:
    with worlds.open() as world:
        a_wanted_stream(world)
        a_primary(world, "p1")
    rows = plan(worlds, "stop_stream", "stop")
    assert names(rows) == ["RequestExit", "AwaitExit"]
    assert str(rows[0]["does"]).startswith("asks p1 to finish its epoch")
    with worlds.open() as world:
        assert observe_stream(world, CLICKS).wanted


def test_a_recovery_is_planned_and_nobody_is_fenced(worlds: SimulatedProjects) -> None:
    with worlds.open() as world:
        a_wanted_stream(world)
        a_primary(world, "p1", alive=False)
    rows = plan(worlds, "recover_stream", "recover")
    assert names(rows) == ["Fence", "Launch", "AwaitCatchUp"]
    with worlds.open() as world:
        [row] = world.store.replicas.of(CLICKS, live=False)
    assert row.state is not ReplicaState.FENCED


def test_a_proof_is_planned_and_no_snapshot_is_proven(worlds: SimulatedProjects) -> None:
    with worlds.open() as world:
        a_wanted_stream(world)
        commit_epochs(world, 3)
        world.store.snapshots.record(a_snapshot("s1", 1, stream=CLICKS))
    rows = plan(worlds, "prove_snapshot", "prove")
    assert names(rows) == ["RestoreScratch", "Recompute", "RecordProof"]
    assert rows[0]["does"] == "restores s1 into a scratch folder, every digest verified"
    with worlds.open() as world:
        [row] = world.store.snapshots.of(CLICKS)
    assert row.proven_at is None
