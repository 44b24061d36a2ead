"""The proof of a snapshot in the metadata, and the check that a recent proof exists."""

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
def worlds(tmp_path: Path) -> SimulatedProjects:
    return simulated_projects(tmp_path)


def checked(worlds: SimulatedProjects) -> dg.AssetCheckEvaluation:
    """The check `proven`, run as Dagster does."""
    with worlds.open() as world:
        audit = build_definitions(world.config, worlds).resolve_job_def("audit")
    evaluations = audit.execute_in_process(raise_on_error=False).get_asset_check_evaluations()
    [proven] = [evaluation for evaluation in evaluations if evaluation.check_name == "proven"]
    return proven


def test_snapshots_of_which_none_was_proven_are_warned_of(worlds: SimulatedProjects) -> None:
    with worlds.open() as world:
        world.store.snapshots.record(a_snapshot("s1", 0, stream=CLICKS))
    proven = checked(worlds)
    assert not proven.passed
    assert proven.severity is dg.AssetCheckSeverity.WARN
    assert proven.description == (
        "no snapshot was proven yet: run `holdfast snapshots prove clicks`, "
        "or turn the schedule `restore_drills` on"
    )


def test_a_proof_is_good_for_a_week_and_outlives_its_snapshot(worlds: SimulatedProjects) -> None:
    with worlds.open() as world:
        for name, epoch in (("s1", 0), ("s2", 1)):
            world.store.snapshots.record(a_snapshot(name, epoch, stream=CLICKS))
        world.store.snapshots.record_proof(CLICKS, "s1", 31.4)
        world.store.snapshots.mark(CLICKS, "s1", SnapshotState.DROPPED, "too old")
    proven = checked(worlds)
    assert proven.passed
    assert proven.description == "s1 was proven 0.0 days ago, in 31 s"
    assert proven.metadata["proven_in_seconds"].value == 31.4
    with worlds.open() as world:
        snapshots = world.store.snapshots
        newest, last, at = (
            snapshots.newest(CLICKS),
            snapshots.last_proven(CLICKS),
            world.store.now(),
        )
    late = judge_proof(CLICKS, newest, last, at=at + 8 * DAY)
    assert not late.passed
    assert str(late.description).startswith("s1 was proven 8.0 days ago, in 31 s: run `holdfast")


def test_a_snapshot_tells_when_it_was_proven_and_in_how_many_seconds() -> None:
    never = snapshot_metadata(a_snapshot("s1", 0), at=100.0)
    assert not {"proven_seconds_ago", "proven_in_seconds"} & never.keys()
    proven = snapshot_metadata(a_snapshot("s1", 0, proven_at=60.0, proven_seconds=31.4), at=100.0)
    assert (proven["proven_seconds_ago"], proven["proven_in_seconds"]) == (40.0, 31.4)
