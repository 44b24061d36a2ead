"""The reports on drills, incidents and playbooks, from what the control store knows."""

from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from holdfast.assets.reports.activity import journal_rows
from holdfast.ft_policies.playbooks.drill import PLAYBOOK, Report
from holdfast.observation.reports.drills import drill_rows
from holdfast.observation.reports.incidents import incident_rows
from holdfast.orchestration.schedules import failure_drills
from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.records import Phase, SnapshotState
from holdfast.resources.project import Project
from tests.builders.control_rows import a_snapshot
from tests.builders.streams import CLICKS, PATIENT, a_primary, a_wanted_stream
from tests.fakes.projects import SimulatedProjects, simulated_projects

DETAIL = {
    "fault": "kill",
    "primary": "p1",
    "tier": "active_standby",
    "objective_seconds": 10.0,
    "predicted_seconds": 4.0,
    "observed_seconds": 3.5,
    "held": True,
}


@pytest.fixture
def projects(tmp_path: Path) -> SimulatedProjects:
    return simulated_projects(
        tmp_path, CLICKS, "beta", supervision=PATIENT, drills={"fault": "pause"}
    )


def a_line(project: Project, step: str, phase: Phase, **changes: object) -> None:
    line = {"stream": CLICKS, "playbook": "recover", "run": "run-1", "seconds": 0.25}
    project.store.journal.write(**{**line, "step": step, "phase": phase, **changes})  # type: ignore[arg-type]


def test_drills_are_listed_with_the_last_proven_snapshot(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        for detail in (DETAIL, {**DETAIL, "held": False}):
            a_line(project, Report.__name__, Phase.DONE, playbook=PLAYBOOK, detail=detail)
        a_line(project, Report.__name__, Phase.FAILED, playbook=PLAYBOOK, detail={})
        for name in ("s1", "s2"):
            project.store.snapshots.record(a_snapshot(name, 1, stream="beta"))
            project.store.snapshots.record_proof("beta", name, 12.5)
        project.store.snapshots.mark("beta", "s2", SnapshotState.DROPPED, "too old")
        rows = drill_rows(project, [CLICKS, "beta"])
    assert [(row["drill"], row["held"]) for row in rows if row["stream"] == CLICKS] == [
        ("kill", False),
        ("kill", True),
    ]
    [proof] = [row for row in rows if row["stream"] == "beta"]
    assert (proof["drill"], proof["about"], proof["observed_seconds"]) == ("restore", "s2", 12.5)


def test_an_incident_is_reported_with_its_timeline(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        detail = {"reason": "its process is gone"}
        incident = project.store.incidents.open(
            stream=CLICKS, key="k", kind=IncidentKind.RECOVERY, detail=detail
        )
        a_line(project, "Fence", Phase.INTENT, incident=incident.id)
        a_line(project, "Fence", Phase.DONE, incident=incident.id, detail={"primary": "p1"})
        failed = {"error": "no room"}
        a_line(project, "Launch", Phase.FAILED, incident=incident.id, detail=failed)
        a_line(project, "Launch", Phase.DONE)
        project.store.incidents.close(incident.id, "recovered")
        [row] = incident_rows(project, [CLICKS, "beta"])
    assert (row["reason"], row["state"], row["outcome"]) == (
        "its process is gone",
        "closed",
        "recovered",
    )
    timeline = str(row["timeline"])
    assert "Fence p1 0.25 s; " in timeline
    assert "Launch 0.25 s failed: no room; " in timeline
    assert timeline.endswith("s closed")
    assert timeline.count(";") == 2, "what was done for no incident is not its"


def test_a_step_whose_replica_was_lost_has_failed_though_the_run_went_on(
    projects: SimulatedProjects,
) -> None:
    with projects.open() as project:
        incident = project.store.incidents.open(
            stream=CLICKS, key="k", kind=IncidentKind.RECOVERY, detail={}
        )
        lost = {"primary": "p2", "failed": "its process is gone"}
        a_line(project, "AwaitCatchUp", Phase.DONE, incident=incident.id, detail=lost)
        [row] = incident_rows(project, [CLICKS])
        [line] = journal_rows(project, [CLICKS])
    assert "AwaitCatchUp p2 0.25 s failed: its process is gone" in str(row["timeline"])
    assert (line["phase"], line["error"]) == ("failed", "its process is gone")


def test_the_journal_is_listed_newest_first(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        a_line(project, "Fence", Phase.INTENT, seconds=None)
        a_line(project, "Fence", Phase.DONE, detail={"primary": "p1"})
        rows = journal_rows(project, [CLICKS, "beta"])
    assert [(row["phase"], row["about"]) for row in rows] == [("done", "p1"), ("intent", "")]


def on_tuesday(projects: SimulatedProjects) -> object:
    context = dg.build_schedule_context(
        scheduled_execution_time=datetime(2026, 1, 6, 3, 41, tzinfo=UTC)
    )
    return failure_drills(context, projects=projects)


def test_only_streams_that_are_well_are_drilled_by_the_clock(projects: SimulatedProjects) -> None:
    skipped = on_tuesday(projects)
    assert isinstance(skipped, dg.SkipReason)
    assert skipped.skip_message == "beta: it was never started; clicks: it was never started"
    with projects.open() as project:
        a_wanted_stream(project)
        a_primary(project, "p1")
    requests = on_tuesday(projects)
    assert isinstance(requests, list)
    [request] = requests
    assert request.run_config["ops"]["drill"]["config"]["stream"] == CLICKS
    assert request.run_config["ops"]["drill"]["config"]["fault"] == "pause"
