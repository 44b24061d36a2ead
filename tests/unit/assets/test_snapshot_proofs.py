"""The proof of a snapshot in the metadata, and the check that a recent proof exists."""

import re
from pathlib import Path

import dagster as dg
import pytest

from holdfast.assets.snapshots import judge_proof, snapshot_metadata
from holdfast.orchestration.definitions import build_definitions
from holdfast.resources.control_store.records import SnapshotState
from tests.builders.control_rows import a_snapshot
from tests.builders.streams import CLICKS
from tests.fakes.projects import SimulatedProjects, simulated_projects

DAY = 86400.0


@pytest.fixture
def projects(tmp_path: Path) -> SimulatedProjects:
    return simulated_projects(tmp_path)


def checked(projects: SimulatedProjects) -> dg.AssetCheckEvaluation:
    """The check `proven`, run as Dagster does."""
    with projects.open() as project:
        audit = build_definitions(project.config, projects).resolve_job_def("audit")
    evaluations = audit.execute_in_process(raise_on_error=False).get_asset_check_evaluations()
    [proven] = [evaluation for evaluation in evaluations if evaluation.check_name == "proven"]
    return proven


def test_snapshots_of_which_none_was_proven_are_warned_of(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        project.store.snapshots.record(a_snapshot("s1", 0, stream=CLICKS))
    proven = checked(projects)
    assert not proven.passed
    assert proven.severity is dg.AssetCheckSeverity.WARN
    assert proven.description == (
        "no snapshot was proven yet: run `holdfast snapshots prove clicks`, "
        "or turn the schedule `snapshot_proofs` on"
    )


def test_a_proof_is_good_for_a_week_and_outlives_its_snapshot(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        for name, epoch in (("s1", 0), ("s2", 1)):
            project.store.snapshots.record(a_snapshot(name, epoch, stream=CLICKS))
        project.store.snapshots.record_proof(CLICKS, "s1", 31.4)
        project.store.snapshots.mark(CLICKS, "s1", SnapshotState.DROPPED, "too old")
    proven = checked(projects)
    assert proven.passed
    assert re.fullmatch(r"s1 was proven \d+ s ago, in 31\.4 s", str(proven.description))
    assert proven.metadata["proven_in_seconds"].value == 31.4
    with projects.open() as project:
        snapshots = project.store.snapshots
        newest, last, at = (
            snapshots.newest(CLICKS),
            snapshots.last_proven(CLICKS),
            project.store.now(),
        )
    late = judge_proof(CLICKS, newest, last, at=at + 8 * DAY)
    assert not late.passed
    assert str(late.description).startswith("s1 was proven 8 d ago, in 31.4 s: run `holdfast")


def test_a_snapshot_tells_when_it_was_proven_and_in_how_many_seconds() -> None:
    never = snapshot_metadata(a_snapshot("s1", 0), at=100.0)
    assert not {"proven_seconds_ago", "proven_in_seconds"} & never.keys()
    proven = snapshot_metadata(a_snapshot("s1", 0, proven_at=60.0, proven_seconds=31.4), at=100.0)
    assert (proven["proven_seconds_ago"], proven["proven_in_seconds"]) == (40.0, 31.4)
