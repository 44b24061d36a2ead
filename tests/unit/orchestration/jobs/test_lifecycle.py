"""The jobs, run in this process on a stream whose driver is simulated."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from holdfast.assets import project_resource
from holdfast.ft_policies.tiers import Switches
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
from holdfast.resources.control_store.recoveries import TAKEN_OVER_BY
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.process import ProcessHandle
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
def projects(tmp_path: Path) -> SimulatedProjects:
    return simulated_projects(tmp_path)


def ran(
    projects: SimulatedProjects, job: str, op: str, config: Mapping[str, Any]
) -> dg.ExecuteInProcessResult:
    with projects.open() as project:
        definitions = build_definitions(project.config, projects)
    return definitions.resolve_job_def(job).execute_in_process(
        run_config={"ops": {op: {"config": dict(config)}}}, raise_on_error=False
    )


def recovered(
    projects: SimulatedProjects, incident: str | None = None
) -> dg.ExecuteInProcessResult:
    config = {"stream": CLICKS} if incident is None else {"stream": CLICKS, "incident": incident}
    return ran(projects, "recover_stream", "recover", config)


def an_incident(projects: SimulatedProjects, *, detect_seconds: float = 2.0) -> Incident:
    """As the sensor opens it."""
    with projects.open() as project:
        key = lost_primary("p1", stream=CLICKS)
        return a_recovery(project.store, key, t_detect_seconds=detect_seconds)


def read_again(projects: SimulatedProjects, incident: Incident) -> Incident:
    with projects.open() as project:
        row = project.store.incidents.get(incident.id)
    assert row is not None
    return row


def a_dead_primary_that_is_not_wanted(projects: SimulatedProjects) -> None:
    """Its recovery is one step: the fence."""
    with projects.open() as project:
        a_dead_primary(project)
        project.store.streams.desire(CLICKS, DesiredState.STOPPED)


def table(value: object) -> list[Mapping[str, Any]]:
    assert isinstance(value, dg.TableMetadataValue)
    return [record.data for record in value.records]


def test_a_recovery_shows_its_steps_and_closes_its_incident(projects: SimulatedProjects) -> None:
    a_dead_primary_that_is_not_wanted(projects)
    incident = an_incident(projects)
    result = recovered(projects, incident.id)
    assert result.success
    [step] = result.get_asset_observation_events()
    metadata = step.asset_observation_data.asset_observation.metadata
    assert metadata["step"].value == "Fence"
    closed = read_again(projects, incident)
    assert closed.state is IncidentState.CLOSED
    assert re.match(r"recovered [\d.]+ s after the last sign of life", closed.outcome)
    assert "Fence 0." in closed.outcome
    with projects.open() as project:
        [row] = project.store.replicas.of(CLICKS, live=False)
        lines = project.store.journal.of(CLICKS, run=result.run_id)
    assert row.state is ReplicaState.FENCED
    assert [(line.step, line.phase, line.incident) for line in lines] == [
        ("Fence", "intent", incident.id),
        ("Fence", "done", incident.id),
    ]


def test_the_output_says_if_the_objective_was_held(projects: SimulatedProjects) -> None:
    a_dead_primary_that_is_not_wanted(projects)
    result = recovered(projects, an_incident(projects).id)
    [output] = [e for e in result.all_events if e.event_type_value == "STEP_OUTPUT"]
    metadata = output.step_output_data.metadata
    assert metadata["objective_seconds"].value == 10.0
    assert metadata["objective_held"].value is True
    assert [row["step"] for row in table(metadata["steps"])] == ["Fence"]


def test_a_recovery_needs_no_incident(projects: SimulatedProjects) -> None:
    a_dead_primary_that_is_not_wanted(projects)
    assert recovered(projects).success
    with projects.open() as project:
        assert project.store.replicas.of(CLICKS) == []


def test_a_run_whose_incident_another_run_has_does_nothing(projects: SimulatedProjects) -> None:
    a_dead_primary_that_is_not_wanted(projects)
    incident = an_incident(projects)
    with projects.open() as project:
        project.store.incidents.claim(incident.id, "another-run", 60.0)
    result = recovered(projects, incident.id)
    assert result.success
    assert result.get_asset_observation_events() == []
    assert read_again(projects, incident).claimed_by == "another-run"
    with projects.open() as project:
        assert len(project.store.replicas.of(CLICKS)) == 1


def test_a_recovery_that_gives_up_fails_with_a_hint_and_the_incident_stays_open(
    projects: SimulatedProjects,
) -> None:
    with projects.open() as project:
        a_wanted_stream(project)
        for replica in ("r1", "r2", "r3"):
            a_primary(project, replica)
            project.store.replicas.end(
                replica, ReplicaState.FAILED, "column x is missing", by=EndedBy.REPLICA
            )
    incident = an_incident(projects)
    result = recovered(projects, incident.id)
    assert not result.success
    [failure] = [e for e in result.all_events if e.event_type_value == "STEP_FAILURE"]
    about = failure.step_failure_data.user_failure_data
    assert about is not None
    assert "column x is missing" in str(about.description)
    assert about.metadata["hint"].value == f"fix the cause, then run `holdfast start {CLICKS}`"
    assert read_again(projects, incident).state is IncidentState.OPEN
    with projects.open() as project:
        row = project.store.streams.get(CLICKS)
    assert row is not None
    assert row.is_desired


def output_of(result: dg.ExecuteInProcessResult) -> Mapping[str, Any]:
    [output] = [e for e in result.all_events if e.event_type_value == "STEP_OUTPUT"]
    return output.step_output_data.metadata


def test_a_failover_tells_its_own_recovery_from_the_time_without_redundancy(
    tmp_path: Path,
) -> None:
    projects = simulated_projects(tmp_path, tier="active_standby", supervision=PATIENT)
    with projects.open() as project:
        a_wanted_stream(project)
        a_primary(project, "s1")
        a_secondary(project, "s2")
    incident = an_incident(projects)
    with projects.open() as project:
        a_measured_recovery(project.store, 0.7, at=incident.opened_at - 1.3)
    result = recovered(projects, incident.id)
    assert result.success
    metadata = output_of(result)
    assert metadata["recovery_seconds"].value == pytest.approx(0.7)
    assert metadata["redundancy_seconds"].value >= 2.0
    assert metadata["objective_held"].value is True
    outcome = read_again(projects, incident).outcome
    assert outcome.startswith("recovered 0.7 s after the last sign of life, active_standby covered")
    with projects.open() as project:
        assert project.store.tiers.history(CLICKS)[-1].reached_at is not None


def a_measured_recovery(store: ControlStore, seconds: float, *, at: float) -> None:
    """As the replica that took over writes it, once it has caught up."""
    name = SampleName.RECOVERY_SECONDS
    store.samples.write([Sample(stream=CLICKS, replica="s1", name=name, value=seconds, at=at)])


def test_the_recovery_of_a_stuck_primary_counts_from_its_last_progress(tmp_path: Path) -> None:
    projects = simulated_projects(tmp_path, tier="active_standby", supervision=PATIENT)
    with projects.open() as project:
        a_wanted_stream(project)
        a_primary(project, "s1")
        a_secondary(project, "s2")
        before = an_incident(projects, detect_seconds=65.0)
        at = project.store.now()
        a_measured_recovery(
            project.store, 1.5, at=at
        )  # since the lease, which the stuck one renewed
    metadata = output_of(recovered(projects, before.id))
    assert 65.0 <= metadata["recovery_seconds"].value <= metadata["redundancy_seconds"].value
    assert metadata["objective_held"].value is False


def test_a_secondary_that_is_back_and_paused_is_not_said_to_cover_the_tier(tmp_path: Path) -> None:
    projects = projects_with_paused_secondary(tmp_path, "s2")
    with projects.open() as project:
        incident = a_recovery(project.store, lost_secondary("s1", stream=CLICKS))
    assert recovered(projects, incident.id).success
    outcome = read_again(projects, incident).outcome
    assert "paused, covers passive_standby_cold" in outcome
    assert "is covered" not in outcome


def test_a_failover_that_is_reported_once_it_has_caught_up_counts_from_the_failure(
    tmp_path: Path,
) -> None:
    projects = simulated_projects(tmp_path, tier="deployed", supervision=PATIENT)
    with projects.open() as project:
        a_wanted_stream(project)
        a_primary(project, "s1")
        a_secondary(project, "s2", observed=Switches(deploy=True))
        measured = {"t_detect_seconds": 0.1, "recovery_seconds": 8.0, TAKEN_OVER_BY: "s1"}
        incident = a_recovery(project.store, lost_primary("p1", stream=CLICKS), **measured)
    metadata = output_of(recovered(projects, incident.id))
    assert metadata["recovery_seconds"].value == 8.0
    assert metadata["redundancy_seconds"].value >= 8.0


def test_a_lost_secondary_is_no_recovery_of_the_stream(tmp_path: Path) -> None:
    projects = simulated_projects(tmp_path, tier="deployed", supervision=PATIENT)
    with projects.open() as project:
        a_wanted_stream(project)
        a_primary(project, "p1")
        a_secondary(project, "s2", observed=Switches(deploy=True))
        incident = a_recovery(project.store, lost_secondary("s1", stream=CLICKS))
    metadata = output_of(recovered(projects, incident.id))
    assert "recovery_seconds" not in metadata
    assert metadata["redundancy_seconds"].value >= 0.0
    assert read_again(projects, incident).outcome.startswith("deployed covered again after")


def test_a_secondary_that_always_fails_leaves_stream_and_incident_as_they_are(
    tmp_path: Path,
) -> None:
    projects = simulated_projects(tmp_path, tier="deployed", supervision=PATIENT)
    with projects.open() as project:
        a_wanted_stream(project)
        a_primary(project, "p1")
        incident = a_recovery(project.store, lost_secondary(None, stream=CLICKS))
    started: list[str] = []

    def fail_at_once(
        command: Sequence[str],
        *,
        folder: Path,
        output: Path,
        environment: Mapping[str, str],
    ) -> ProcessHandle:
        replica = output.parent.name
        with projects.open() as project:
            project.store.replicas.end(replica, ReplicaState.FAILED, "no room", by=EndedBy.REPLICA)
        started.append(replica)
        return ProcessHandle(pid=1, started_at=1.0)

    projects.launch.launcher = fail_at_once
    assert not recovered(projects, incident.id).success
    assert len(started) == 3
    stored = read_again(projects, incident)
    assert (stored.state, stored.attempts) == (IncidentState.OPEN, 1)
    with projects.open() as project:
        row = project.store.streams.get(CLICKS)
        assert row is not None
        assert row.is_desired
        assert len(project.store.replicas.of(CLICKS)) == 1


def test_stopping_a_stream_whose_driver_is_gone_notes_its_end(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        a_dead_primary(project)
    result = ran(projects, "stop_stream", "stop", {"stream": CLICKS, "patience_seconds": 5.0})
    assert result.success
    with projects.open() as project:
        [row] = project.store.replicas.of(CLICKS, live=False)
    assert row.state is ReplicaState.DEAD


def test_a_stream_that_does_not_run_has_nothing_to_snapshot(projects: SimulatedProjects) -> None:
    assert not ran(projects, "snapshot_stream", "snapshot", {"stream": CLICKS}).success


def test_the_object_store_is_ensured_by_a_run(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        definitions = build_definitions(project.config, projects)
    assert definitions.resolve_job_def("ensure_object_store").execute_in_process().success
    assert "ensure" in projects.objects.calls


def many_snapshots(projects: SimulatedProjects, count: int, stream: str = CLICKS) -> None:
    """Manifests of long ago, each in the catalogue."""
    with projects.open() as project:
        for epoch in range(count):
            name = f"{epoch:012d}-1-r{epoch}"
            projects.objects.objects[f"{stream}/manifests/{name}.json.gz"] = (b"", 1.0)
            project.store.snapshots.record(a_snapshot(name, epoch, stream=stream))


def test_pruning_says_why_and_the_catalogue_follows(projects: SimulatedProjects) -> None:
    many_snapshots(projects, 7)
    result = ran(projects, "prune_snapshots", "prune", {})
    assert result.success
    [event] = result.get_asset_observation_events()
    metadata = event.asset_observation_data.asset_observation.metadata
    assert (metadata["kept"].value, metadata["dropped"].value) == (5, 2)
    assert all(row["reasons"] for row in table(metadata["verdicts"]))
    with projects.open() as project:
        rows = project.store.snapshots.of(CLICKS, available_only=False)
    states = {row.epoch: row.state for row in rows}
    assert [e for e, state in states.items() if state is SnapshotState.DROPPED] == [1, 0]


def test_a_dry_run_drops_nothing(projects: SimulatedProjects) -> None:
    many_snapshots(projects, 7)
    assert ran(projects, "prune_snapshots", "prune", {"dry_run": True}).success
    with projects.open() as project:
        assert len(project.store.snapshots.of(CLICKS)) == 7
        assert len(project.vault(CLICKS).list()) == 7


def test_a_stream_whose_table_is_damaged_does_not_hold_up_the_pruning_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project_resource, "RETRIES", 0)
    projects = simulated_projects(tmp_path, "damaged", "orders")
    for stream in ("damaged", "orders"):
        many_snapshots(projects, 7, stream)
    with projects.open() as project:
        log = Path(project.config.table_path("damaged")) / "_delta_log"
        log.mkdir(parents=True)
        (log / f"{0:020d}.json").write_text("no action")
        old = Sample(stream="orders", replica="r", name=SampleName.CPU_CORES, value=1.0, at=1.0)
        project.store.samples.write([old])
    result = ran(projects, "prune_snapshots", "prune", {})
    assert not result.success
    [failed] = result.get_step_failure_events()
    error = failed.step_failure_data.error
    assert "1 stream not pruned: damaged: " in error.to_string()
    with projects.open() as project:
        rows = project.store.snapshots.of("orders", available_only=False)
        assert [row.epoch for row in rows if row.state is SnapshotState.DROPPED] == [1, 0]
        assert not project.store.samples.latest("orders"), "records of the project were pruned, too"
