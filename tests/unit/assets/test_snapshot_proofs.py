"""What is told of a snapshot's proof, and the check that misses one."""

from pathlib import Path

import dagster as dg
import pytest

from holdfast.assets.snapshots import judge_proof, snapshot_metadata
from holdfast.orchestration.definitions import definitions_of
from holdfast.resources.control_store.records import SnapshotState
from tests.fakes.worlds import CLICKS, SimulatedWorlds, simulated_worlds
from tests.support.control_builders import a_snapshot

DAY = 86400.0


@pytest.fixture
def worlds(tmp_path: Path) -> SimulatedWorlds:
    return simulated_worlds(tmp_path)


def checked(worlds: SimulatedWorlds) -> dg.AssetCheckEvaluation:
    """The check `proven`, run as Dagster does."""
    with worlds.open() as world:
        audit = definitions_of(world.config, worlds).resolve_job_def("audit")
    found = audit.execute_in_process(raise_on_error=False).get_asset_check_evaluations()
    [proven] = [one for one in found if one.check_name == "proven"]
    return proven


def test_snapshots_of_which_none_was_proven_are_warned_of(worlds: SimulatedWorlds) -> None:
    with worlds.open() as world:
        world.store.snapshots.record(a_snapshot("s1", 0, stream=CLICKS))
    proven = checked(worlds)
    assert not proven.passed
    assert proven.severity is dg.AssetCheckSeverity.WARN
    assert proven.description == (
        "no snapshot was proven yet: `holdfast snapshots prove clicks`, "
        "or turn the schedule `restore_drills` on"
    )


def test_a_proof_is_good_for_a_week_and_outlives_its_snapshot(worlds: SimulatedWorlds) -> None:
    with worlds.open() as world:
        for name, epoch in (("s1", 0), ("s2", 1)):
            world.store.snapshots.record(a_snapshot(name, epoch, stream=CLICKS))
        world.store.snapshots.proven(CLICKS, "s1", 31.4)
        world.store.snapshots.mark(CLICKS, "s1", SnapshotState.DROPPED, "too old")
    proven = checked(worlds)
    assert proven.passed
    assert proven.description == "s1 was proven 0.0 days ago, in 31 s"
    assert proven.metadata["proven_in_seconds"].value == 31.4
    with worlds.open() as world:
        found = world.store.snapshots
        newest, last, at = found.newest(CLICKS), found.last_proven(CLICKS), world.store.now()
    late = judge_proof(CLICKS, newest, last, at=at + 8 * DAY)
    assert not late.passed
    assert str(late.description).startswith("s1 was proven 8.0 days ago, in 31 s: `holdfast")


def test_a_snapshot_tells_when_it_was_proven_and_in_how_many_seconds() -> None:
    never = snapshot_metadata(a_snapshot("s1", 0), at=100.0)
    assert not {"proven_seconds_ago", "proven_in_seconds"} & never.keys()
    proven = snapshot_metadata(a_snapshot("s1", 0, proven_at=60.0, proven_seconds=31.4), at=100.0)
    assert (proven["proven_seconds_ago"], proven["proven_in_seconds"]) == (40.0, 31.4)
