"""Recoveries after the clock of the control store was set back by an hour."""

from pathlib import Path

from holdfast.observation.status import observe_stream
from holdfast.orchestration.incidents import due_recoveries
from holdfast.resources.control_store.records import EndedBy, ReplicaState
from holdfast.resources.project import Project
from tests.builders.control_rows import a_recovery, lost_primary
from tests.builders.streams import CLICKS, PATIENT, a_dead_primary, a_primary, a_wanted_stream
from tests.fakes.clocks import shift_clock
from tests.fakes.projects import simulated_projects

HOUR_SECONDS = 3600.0


def end(project: Project, replica: str) -> None:
    project.store.replicas.end(replica, ReplicaState.FAILED, "it ended itself", by=EndedBy.REPLICA)


def test_a_primary_that_ends_itself_is_recovered_though_one_ended_in_the_future(
    tmp_path: Path,
) -> None:
    with simulated_projects(tmp_path, supervision=PATIENT).open() as project:
        shift_clock(project.store, HOUR_SECONDS)
        a_wanted_stream(project)
        a_primary(project, "p1")
        end(project, "p1")
        old = a_recovery(project.store, lost_primary("p1", stream=CLICKS))
        project.store.incidents.close(old.id, "recovered")
        shift_clock(project.store, 0.0)
        a_primary(project, "p2")
        end(project, "p2")
        last = observe_stream(project, CLICKS).last_primary
        assert last is not None
        assert last.id == "p2"
        (due,) = due_recoveries(project)
    assert (due.incident.replica, due.incident.closed_at) == ("p2", None)


def test_a_replica_that_is_lost_again_after_its_incident_was_closed_in_the_future_is_recovered(
    tmp_path: Path,
) -> None:
    with simulated_projects(tmp_path, supervision=PATIENT).open() as project:
        shift_clock(project.store, HOUR_SECONDS)
        a_wanted_stream(project)
        a_primary(project, "p1")
        old = a_recovery(project.store, lost_primary("p1", stream=CLICKS))
        project.store.incidents.close(old.id, "recovered")
        shift_clock(project.store, 0.0)
        end(project, "p1")
        (due,) = due_recoveries(project)
    assert due.incident.key == f"{CLICKS}/p1/2"


def test_a_run_that_died_with_a_claim_into_the_future_is_followed_by_another_at_once(
    tmp_path: Path,
) -> None:
    with simulated_projects(tmp_path, supervision=PATIENT).open() as project:
        shift_clock(project.store, HOUR_SECONDS)
        a_dead_primary(project, "p1", CLICKS)
        (first,) = due_recoveries(project)
        project.store.incidents.claim(first.incident.id, "run-1", 30.0)
        assert due_recoveries(project) == []
        shift_clock(project.store, 0.0)
        (second,) = due_recoveries(project)
        assert second.incident.id == first.incident.id
        assert second.run_key != first.run_key
        assert project.store.incidents.claim(first.incident.id, "run-2", 30.0) is not None


def test_a_request_that_was_lost_is_repeated_for_an_incident_of_the_future(tmp_path: Path) -> None:
    with simulated_projects(tmp_path, supervision=PATIENT).open() as project:
        shift_clock(project.store, HOUR_SECONDS)
        a_dead_primary(project, "p1", CLICKS)
        (first,) = due_recoveries(project)
        keys = {first.run_key}
        for minutes in (0, 1, 2):
            shift_clock(project.store, minutes * 60.0)
            keys |= {due.run_key for due in due_recoveries(project)}
    assert len(keys) == 4


def test_a_stream_that_was_started_in_the_future_is_not_being_started_for_an_hour(
    tmp_path: Path,
) -> None:
    with simulated_projects(tmp_path, supervision=PATIENT).open() as project:
        shift_clock(project.store, HOUR_SECONDS)
        a_wanted_stream(project)
        assert due_recoveries(project) == []
        shift_clock(project.store, 0.0)
        (due,) = due_recoveries(project)
    assert due.incident.stream == CLICKS
