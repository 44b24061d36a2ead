"""The jobs, run in this process on a stream whose driver is simulated."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from holdfast.ft_policies.tiers import OFF, Switches
from holdfast.orchestration.definitions import build_definitions
from holdfast.resources.control_store.records import (
    DesiredState,
    EndedBy,
    Incident,
    IncidentState,
    ReplicaState,
    Sample,
    SnapshotState,
)
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.store import ControlStore
from tests.builders.control_rows import a_recovery, a_snapshot, lost_primary, lost_secondary
from tests.builders.streams import (
    CLICKS,
    PATIENT,
    a_dead_primary,
    a_primary,
    a_secondary,
    a_wanted_stream,
)
from tests.fakes.projects import (
    SimulatedProjects,
    projects_with_paused_secondary,
    simulated_projects,
)


@pytest.fixture
def worlds(tmp_path: Path) -> SimulatedProjects:
    return simulated_projects(tmp_path)


def ran(
    worlds: SimulatedProjects, job: str, op: str, config: Mapping[str, Any]
) -> dg.ExecuteInProcessResult:
    with worlds.open() as world:
        definitions = build_definitions(world.config, worlds)
    return definitions.resolve_job_def(job).execute_in_process(
        run_config={"ops": {op: {"config": dict(config)}}}, raise_on_error=False
    )


def recovered(worlds: SimulatedProjects, incident: str | None = None) -> dg.ExecuteInProcessResult:
    config = {"stream": CLICKS} if incident is None else {"stream": CLICKS, "incident": incident}
    return ran(worlds, "recover_stream", "recover", config)


def an_incident(worlds: SimulatedProjects, *, detect_seconds: float = 2.0) -> Incident:
    """As the sensor opens it."""
    with worlds.open() as world:
        key = lost_primary("p1", stream=CLICKS)
        return a_recovery(world.store, key, t_detect_seconds=detect_seconds)


def as_it_is(worlds: SimulatedProjects, incident: Incident) -> Incident:
    with worlds.open() as world:
        found = world.store.incidents.get(incident.id)
    assert found is not None
    return found


def a_dead_primary_that_nobody_wants(worlds: SimulatedProjects) -> None:
    """Its recovery is one step: the fence."""
    with worlds.open() as world:
        a_dead_primary(world)
        world.store.streams.desire(CLICKS, DesiredState.STOPPED)


def table(value: object) -> list[Mapping[str, Any]]:
    assert isinstance(value, dg.TableMetadataValue)
    return [record.data for record in value.records]


def test_a_recovery_shows_its_steps_and_closes_its_incident(worlds: SimulatedProjects) -> None:
    a_dead_primary_that_nobody_wants(worlds)
    incident = an_incident(worlds)
    result = recovered(worlds, incident.id)
    assert result.success
    [step] = result.get_asset_observation_events()
    metadata = step.asset_observation_data.asset_observation.metadata
    assert metadata["step"].value == "Fence"
    closed = as_it_is(worlds, incident)
    assert closed.state is IncidentState.CLOSED
    assert re.match(r"recovered \d+\.\d s after the last sign of life", closed.outcome)
    assert "Fence 0." in closed.outcome
    with worlds.open() as world:
        [row] = world.store.replicas.of(CLICKS, live=False)
        lines = world.store.journal.of(CLICKS, run=result.run_id)
    assert row.state is ReplicaState.FENCED
    assert [(line.step, line.phase, line.incident) for line in lines] == [
        ("Fence", "intent", incident.id),
        ("Fence", "done", incident.id),
    ]


def test_the_output_says_if_the_objective_was_held(worlds: SimulatedProjects) -> None:
    a_dead_primary_that_nobody_wants(worlds)
    result = recovered(worlds, an_incident(worlds).id)
    [output] = [e for e in result.all_events if e.event_type_value == "STEP_OUTPUT"]
    metadata = output.step_output_data.metadata
    assert metadata["objective_seconds"].value == 10.0
    assert metadata["objective_held"].value is True
    assert [row["step"] for row in table(metadata["steps"])] == ["Fence"]


def test_a_recovery_needs_no_incident(worlds: SimulatedProjects) -> None:
    a_dead_primary_that_nobody_wants(worlds)
    assert recovered(worlds).success
    with worlds.open() as world:
        assert world.store.replicas.of(CLICKS) == []


def test_a_run_whose_incident_another_run_has_does_nothing(worlds: SimulatedProjects) -> None:
    a_dead_primary_that_nobody_wants(worlds)
    incident = an_incident(worlds)
    with worlds.open() as world:
        world.store.incidents.claim(incident.id, "another-run", 60.0)
    result = recovered(worlds, incident.id)
    assert result.success
    assert result.get_asset_observation_events() == []
    assert as_it_is(worlds, incident).claimed_by == "another-run"
    with worlds.open() as world:
        assert len(world.store.replicas.of(CLICKS)) == 1


def test_a_recovery_that_gives_up_fails_with_a_hint_and_closes_the_incident(
    worlds: SimulatedProjects,
) -> None:
    with worlds.open() as world:
        a_wanted_stream(world)
        for replica in ("r1", "r2", "r3"):
            a_primary(world, replica)
            world.store.replicas.end(
                replica, ReplicaState.FAILED, "column x is missing", by=EndedBy.REPLICA
            )
    incident = an_incident(worlds)
    result = recovered(worlds, incident.id)
    assert not result.success
    [failure] = [e for e in result.all_events if e.event_type_value == "STEP_FAILURE"]
    about = failure.step_failure_data.user_failure_data
    assert about is not None
    assert "column x is missing" in str(about.description)
    assert about.metadata["hint"].value == f"fix the cause, then run `holdfast start {CLICKS}`"
    assert as_it_is(worlds, incident).state is IncidentState.CLOSED
    with worlds.open() as world:
        row = world.store.streams.get(CLICKS)
    assert row is not None
    assert row.desired is DesiredState.STOPPED


def output_of(result: dg.ExecuteInProcessResult) -> Mapping[str, Any]:
    [output] = [e for e in result.all_events if e.event_type_value == "STEP_OUTPUT"]
    return output.step_output_data.metadata


def test_a_failover_tells_its_own_recovery_from_the_time_without_redundancy(
    tmp_path: Path,
) -> None:
    worlds = simulated_projects(tmp_path, tier="active_standby", supervision=PATIENT)
    with worlds.open() as world:
        a_wanted_stream(world)
        a_primary(world, "s1")
        a_secondary(world, "s2")
    incident = an_incident(worlds)
    with worlds.open() as world:
        a_measured_recovery(world.store, 0.7, at=incident.opened_at - 1.3)
    result = recovered(worlds, incident.id)
    assert result.success
    metadata = output_of(result)
    assert metadata["recovery_seconds"].value == pytest.approx(0.7)
    assert metadata["redundancy_seconds"].value >= 2.0
    assert metadata["objective_held"].value is True
    outcome = as_it_is(worlds, incident).outcome
    assert outcome.startswith("recovered 0.7 s after the last sign of life, active_standby covered")
    with worlds.open() as world:
        assert world.store.tiers.history(CLICKS)[-1].reached_at is not None


def a_measured_recovery(store: ControlStore, seconds: float, *, at: float) -> None:
    """As the replica that took over writes it, once it is level."""
    name = SampleName.RECOVERY_SECONDS
    store.samples.write([Sample(stream=CLICKS, replica="s1", name=name, value=seconds, at=at)])


def test_the_recovery_of_a_stuck_primary_counts_from_its_last_progress(tmp_path: Path) -> None:
    worlds = simulated_projects(tmp_path, tier="active_standby", supervision=PATIENT)
    with worlds.open() as world:
        a_wanted_stream(world)
        a_primary(world, "s1")
        a_secondary(world, "s2")
        before = an_incident(worlds, detect_seconds=65.0)
        at = world.store.now()
        a_measured_recovery(world.store, 1.5, at=at)  # since the lease, which the stuck one renewed
    metadata = output_of(recovered(worlds, before.id))
    assert 65.0 <= metadata["recovery_seconds"].value <= metadata["redundancy_seconds"].value
    assert metadata["objective_held"].value is False


def test_a_secondary_that_is_back_and_paused_is_not_said_to_hold_the_tier(tmp_path: Path) -> None:
    worlds = projects_with_paused_secondary(tmp_path, "s2")
    with worlds.open() as world:
        incident = a_recovery(world.store, lost_secondary("s1", stream=CLICKS))
    assert recovered(worlds, incident.id).success
    outcome = as_it_is(worlds, incident).outcome
    assert "paused, covers passive_standby_cold" in outcome
    assert "held" not in outcome


def test_a_failover_that_is_reported_once_it_is_level_counts_from_the_failure(
    tmp_path: Path,
) -> None:
    worlds = simulated_projects(tmp_path, tier="deployed", supervision=PATIENT)
    with worlds.open() as world:
        a_wanted_stream(world)
        a_primary(world, "s1")
        a_secondary(world, "s2", observed=Switches(deploy=True))
        measured = {"t_detect_seconds": 0.1, "recovery_seconds": 8.0}
        incident = a_recovery(world.store, lost_primary("p1", stream=CLICKS), **measured)
    metadata = output_of(recovered(worlds, incident.id))
    assert metadata["recovery_seconds"].value == 8.0
    assert metadata["redundancy_seconds"].value >= 8.0


def test_a_lost_secondary_is_no_recovery_of_the_stream(tmp_path: Path) -> None:
    worlds = simulated_projects(tmp_path, tier="deployed", supervision=PATIENT)
    with worlds.open() as world:
        a_wanted_stream(world)
        a_primary(world, "p1")
        a_secondary(world, "s2", observed=Switches(deploy=True))
        incident = a_recovery(world.store, lost_secondary("s1", stream=CLICKS))
    metadata = output_of(recovered(worlds, incident.id))
    assert "recovery_seconds" not in metadata
    assert metadata["redundancy_seconds"].value >= 0.0
    assert as_it_is(worlds, incident).outcome.startswith("deployed covered again after")


def test_a_secondary_that_always_fails_leaves_stream_and_incident_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worlds = simulated_projects(tmp_path, tier="deployed", supervision=PATIENT)
    with worlds.open() as world:
        a_wanted_stream(world)
        a_primary(world, "p1")
        incident = a_recovery(world.store, lost_secondary(None, stream=CLICKS))
    started: list[str] = []

    def fails_at_once(project: object, store: ControlStore, name: str) -> None:
        with worlds.open() as world:
            a_secondary(world, f"s{len(started)}", observed=OFF, desired=Switches(deploy=True))
            store.replicas.end(
                f"s{len(started)}", ReplicaState.FAILED, "no room", by=EndedBy.REPLICA
            )
        started.append(name)

    monkeypatch.setattr(
        "holdfast.orchestration.playbooks.recover_secondary.launch_secondary", fails_at_once
    )
    assert not recovered(worlds, incident.id).success
    assert len(started) == 3
    found = as_it_is(worlds, incident)
    assert (found.state, found.attempts) == (IncidentState.OPEN, 1)
    with worlds.open() as world:
        row = world.store.streams.get(CLICKS)
        assert row is not None
        assert row.desired is DesiredState.RUNNING
        assert len(world.store.replicas.of(CLICKS)) == 1


def test_an_unknown_stream_is_a_failure_that_says_which_there_are(
    worlds: SimulatedProjects,
) -> None:
    result = ran(worlds, "start_stream", "start", {"stream": "click"})
    assert not result.success
    [failure] = [e for e in result.all_events if e.event_type_value == "STEP_FAILURE"]
    assert "declared are clicks" in str(failure.step_failure_data.user_failure_data)


def test_stopping_a_stream_whose_driver_is_gone_notes_its_end(worlds: SimulatedProjects) -> None:
    with worlds.open() as world:
        a_dead_primary(world)
    result = ran(worlds, "stop_stream", "stop", {"stream": CLICKS, "patience_seconds": 5.0})
    assert result.success
    with worlds.open() as world:
        [row] = world.store.replicas.of(CLICKS, live=False)
    assert row.state is ReplicaState.DEAD


def test_a_stream_that_does_not_run_has_nothing_to_snapshot(worlds: SimulatedProjects) -> None:
    assert not ran(worlds, "snapshot_stream", "snapshot", {"stream": CLICKS}).success


def test_the_object_store_is_ensured_by_a_run(worlds: SimulatedProjects) -> None:
    with worlds.open() as world:
        definitions = build_definitions(world.config, worlds)
    assert definitions.resolve_job_def("ensure_object_store").execute_in_process().success
    assert "ensure" in worlds.objects.calls


def many_snapshots(worlds: SimulatedProjects, count: int) -> None:
    """Manifests of long ago, each in the catalogue."""
    with worlds.open() as world:
        for epoch in range(count):
            name = f"{epoch:012d}-1-r{epoch}"
            worlds.objects.objects[f"{CLICKS}/manifests/{name}.json.gz"] = (b"", 1.0)
            world.store.snapshots.record(a_snapshot(name, epoch, stream=CLICKS))


def test_pruning_says_why_and_the_catalogue_follows(worlds: SimulatedProjects) -> None:
    many_snapshots(worlds, 7)
    result = ran(worlds, "prune_snapshots", "prune", {})
    assert result.success
    [event] = result.get_asset_observation_events()
    metadata = event.asset_observation_data.asset_observation.metadata
    assert (metadata["kept"].value, metadata["dropped"].value) == (5, 2)
    assert all(row["reasons"] for row in table(metadata["verdicts"]))
    with worlds.open() as world:
        rows = world.store.snapshots.of(CLICKS, available_only=False)
    states = {row.epoch: row.state for row in rows}
    assert [e for e, state in states.items() if state is SnapshotState.DROPPED] == [1, 0]


def test_a_dry_run_drops_nothing(worlds: SimulatedProjects) -> None:
    many_snapshots(worlds, 7)
    assert ran(worlds, "prune_snapshots", "prune", {"dry_run": True}).success
    with worlds.open() as world:
        assert len(world.store.snapshots.of(CLICKS)) == 7
        assert len(world.vault(CLICKS).list()) == 7
