"""Which incident a failure belongs to, and when the next run for it is due."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.health import Health
from holdfast.observation.status import observe_stream
from holdfast.orchestration.failures import detection_seconds
from holdfast.orchestration.incidents import due_recoveries, run_key
from holdfast.orchestration.playbooks.recover import Recover
from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.records import EndedBy, Incident, IncidentState, ReplicaState
from holdfast.resources.control_store.recoveries import SUPERSEDED
from holdfast.resources.process import ProcessHandle
from tests.builders.control_rows import (
    a_recovery,
    a_waiting_recovery,
    lost_primary,
    lost_secondary,
    register,
)
from tests.builders.recovery_sensor import incidents, requested, standby_projects
from tests.builders.streams import (
    CLICKS,
    a_dead_primary,
    a_heartbeat,
    a_primary,
    a_secondary,
    a_wanted_stream,
)
from tests.fakes.clocks import shift_clock
from tests.fakes.projects import simulated_projects

AN_INCIDENT = Incident(
    id="i",
    stream=CLICKS,
    key="k",
    kind=IncidentKind.RECOVERY,
    state=IncidentState.OPEN,
    opened_at=1000.0,
    subject=None,
    replica=None,
    closed_at=None,
    detail={},
    outcome="",
    claimed_by=None,
    claim_expires_at=None,
    attempts=0,
)


def test_a_failed_primary_has_the_same_incident_for_every_observer(tmp_path: Path) -> None:
    projects = standby_projects(tmp_path)
    with projects.open() as project:
        a_secondary(project, "s1")
        opened = a_recovery(project.store, lost_primary("p1", stream=CLICKS), health="dead")
        project.store.replicas.end("p1", ReplicaState.FENCED, "taken over", by=EndedBy.REPLICA)
        project.store.incidents.close(opened.id, "by the one who took over")
    assert incidents(projects)[0].key == f"{CLICKS}/p1/1"
    assert len(requested(projects)) == 1
    assert {incident.key for incident in incidents(projects)} == {
        f"{CLICKS}/p1/1",
        f"{CLICKS}/p1/2",
    }


@pytest.mark.parametrize(
    ("state", "is_failure"), [(ReplicaState.HANDED_OVER, False), (ReplicaState.DEAD, True)]
)
def test_a_primary_that_a_migration_has_let_go_is_not_missed_for_a_moment(
    tmp_path: Path,
    state: ReplicaState,
    is_failure: bool,  # noqa: FBT001
) -> None:
    projects = standby_projects(tmp_path)
    with projects.open() as project:
        project.store.migrations.begin(
            stream=CLICKS, target={}, tier="deployed", protocol="legacy",
            within_seconds=60.0, may_differ=False, why="", run="",
        )  # fmt: skip
        project.store.replicas.end("p1", state, "it is gone", by=EndedBy.REPLICA)
    assert bool(requested(projects)) is is_failure


def test_a_stream_was_not_lost_before_it_was_started(tmp_path: Path) -> None:
    """Stopped for a week, then started: its new primary dies before it is registered."""
    with simulated_projects(tmp_path).open() as project:
        a_wanted_stream(project)
        shift_clock(project.store, -604_800.0)
        a_primary(project, "p1")
        project.store.replicas.end("p1", ReplicaState.STOPPED, "stopped", by=EndedBy.REPLICA)
        shift_clock(project.store, 60.0)
        status = observe_stream(project, CLICKS)
        assert status.verdict.health is Health.MISSING
        assert detection_seconds(status) == pytest.approx(60.0, abs=10.0)
        long_wanted = replace(status, changed_at=1.0)
        assert detection_seconds(long_wanted) == pytest.approx(604_860.0, abs=10.0)


def test_a_dead_primary_does_not_wait_for_the_next_try_at_its_secondary(tmp_path: Path) -> None:
    projects = standby_projects(tmp_path)
    with projects.open() as project:
        old = a_waiting_recovery(project.store, lost_secondary("s1", stream=CLICKS))
    assert requested(projects) == []
    with projects.open() as project:
        project.store.replicas.record_process(
            "p1", pid=os.getpid(), pid_started_at=1.0
        )  # another process
    keys = {key for _ in range(3) for key in requested(projects)}
    [new] = [incident for incident in incidents(projects) if incident.state is IncidentState.OPEN]
    assert (new.key, new.attempts) == (f"{CLICKS}/p1/1", 0)
    assert keys == {f"{new.id}-0-0"}
    [closed] = [incident for incident in incidents(projects) if incident.id == old.id]
    assert closed.outcome == SUPERSEDED


def test_a_primary_that_came_back_does_not_wait_for_the_next_try_at_its_older_loss(
    tmp_path: Path,
) -> None:
    projects = standby_projects(tmp_path)
    with projects.open() as project:
        old = a_waiting_recovery(project.store, lost_primary("p1", stream=CLICKS))
        a_heartbeat(project, "p1", epoch=7)
    assert requested(projects) == [], "what it waits for is its secondary"
    with projects.open() as project:
        project.store.replicas.record_process(
            "p1", pid=os.getpid(), pid_started_at=1.0
        )  # another process
    keys = {key for _ in range(3) for key in requested(projects)}
    [new] = [incident for incident in incidents(projects) if incident.state is IncidentState.OPEN]
    assert new.key == f"{CLICKS}/p1/2"
    assert keys == {f"{new.id}-0-0"}
    [closed] = [incident for incident in incidents(projects) if incident.id == old.id]
    assert closed.outcome == SUPERSEDED


def test_a_primary_that_is_lost_and_comes_back_by_turns_has_no_incident_each_time(
    tmp_path: Path,
) -> None:
    projects = standby_projects(tmp_path)
    with projects.open() as project:
        a_waiting_recovery(project.store, lost_primary("p1", stream=CLICKS))
        this = ProcessHandle.this()
        for epoch in range(3):
            project.store.replicas.record_process(
                "p1", pid=this.pid, pid_started_at=this.started_at
            )
            a_heartbeat(project, "p1", epoch=7 + epoch)
            requested(projects)
            project.store.replicas.record_process("p1", pid=this.pid, pid_started_at=1.0)
            requested(projects)
    assert {incident.key for incident in incidents(projects)} == {
        f"{CLICKS}/p1/1",
        f"{CLICKS}/p1/2",
    }


def test_a_primary_that_has_not_worked_since_is_still_the_same_loss(tmp_path: Path) -> None:
    projects = standby_projects(tmp_path)
    with projects.open() as project:
        a_waiting_recovery(project.store, lost_primary("p1", stream=CLICKS))
        project.store.replicas.record_process(
            "p1", pid=os.getpid(), pid_started_at=1.0
        )  # another process
    assert requested(projects) == []
    assert len(incidents(projects)) == 1


def test_the_next_primary_has_an_incident_of_its_own_once_it_has_worked(tmp_path: Path) -> None:
    projects = standby_projects(tmp_path)
    with projects.open() as project:
        a_waiting_recovery(project.store, lost_primary("p0", stream=CLICKS))
        project.store.replicas.end("p1", ReplicaState.FAILED, "no luck", by=EndedBy.REPLICA)
    assert len(requested(projects)) == 1
    assert {incident.key for incident in incidents(projects)} == {
        f"{CLICKS}/p0/1",
        f"{CLICKS}/p1/1",
    }


def test_a_primary_that_never_worked_is_the_failure_that_was_there_before(tmp_path: Path) -> None:
    projects = simulated_projects(tmp_path)
    with projects.open() as project:
        a_dead_primary(project, "p0")
        requested(projects)
        a_waiting_recovery(project.store, lost_primary("p0", stream=CLICKS))
        project.store.replicas.end("p0", ReplicaState.FENCED, "dead", by=EndedBy.REPLICA)
        register(project.store, "p1", stream=CLICKS)
        project.store.replicas.end("p1", ReplicaState.FAILED, "no luck", by=EndedBy.REPLICA)
    assert requested(projects) == []
    [incident] = incidents(projects)
    assert incident.state is IncidentState.OPEN


def test_a_run_that_is_at_a_lost_secondary_sees_to_the_primary_too(tmp_path: Path) -> None:
    projects = standby_projects(tmp_path)
    with projects.open() as project:
        old = a_waiting_recovery(project.store, lost_secondary("s1", stream=CLICKS))
        project.store.incidents.claim(old.id, "run-9", 60.0)
        project.store.replicas.end("p1", ReplicaState.FAILED, "no luck", by=EndedBy.REPLICA)
    assert requested(projects) == []
    assert [incident.id for incident in incidents(projects)] == [old.id]


def test_a_request_that_got_lost_is_made_again_a_minute_later() -> None:
    assert run_key(AN_INCIDENT, at=1001.0) == run_key(AN_INCIDENT, at=1059.0) == "i-0-0"
    assert run_key(AN_INCIDENT, at=1060.0) == "i-0-1"


def test_runs_that_keep_failing_are_asked_for_ever_more_rarely() -> None:
    def due_after(attempts: int) -> float:
        claimed = replace(AN_INCIDENT, claimed_by="r", claim_expires_at=1000.0, attempts=attempts)
        return next(s for s in range(0, 4000, 10) if run_key(claimed, at=1000.0 + s) is not None)

    assert [due_after(n) for n in (1, 2, 3, 4, 9)] == [0, 0, 120, 240, 1800]


def test_a_stream_that_was_given_up_keeps_its_incident_open_and_gets_no_other_run(
    tmp_path: Path,
) -> None:
    with simulated_projects(tmp_path).open() as project:
        a_wanted_stream(project)
        for number in range(3):
            a_primary(project, f"p{number}")
            project.store.replicas.end(
                f"p{number}", ReplicaState.FAILED, "bad line", by=EndedBy.REPLICA
            )
        (due,) = due_recoveries(project)
        about = due.incident.detail
        reason = "3 replicas failed in a row: bad line"
        assert (about["cause"], about["reason"]) == ("failed", reason)
        project.store.incidents.claim(due.incident.id, "run", -1.0)
        with pytest.raises(PermanentError, match=f"has failed: {reason}"):
            list(Recover(project, CLICKS, "run", incident=due.incident.id).steps())
        assert due_recoveries(project) == []
        (incident,) = project.store.incidents.of(CLICKS)
        assert incident.id == due.incident.id
