"""`--dry-run` of start, stop and prove: what each step would do, and nothing is touched."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.ft_policies.tiers import Tier
from holdfast.observation.status import observe
from holdfast.resources.project import Project
from tests.fakes.declared import a_project, written
from tests.fakes.worlds import a_secondary
from tests.support.cli import facts, holdfast
from tests.support.cli_world import REPLICA, STREAM, a_running_stream, a_snapshot, a_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Project]:
    """A declared stream whose object store Holdfast would have to start itself."""
    with a_world(a_project(tmp_path, clicks=written(tier="deployed"))) as world:
        yield world


def steps(told: dict[str, list[dict[str, str]]]) -> list[str]:
    return [step["step"] for step in told["steps"]]


def object_store_runs(world: Project) -> bool:
    embedded = world.embedded_s3()
    return embedded is None or embedded.alive()


def test_a_start_of_a_stream_that_never_ran_is_planned_and_declares_nothing(
    tmp_path: Path, world: Project
) -> None:
    [told] = facts(tmp_path, "start", STREAM, "--dry-run")["streams"]
    assert steps(told) == ["Launch", "AwaitCatchUp", "LaunchSecondary", "TurnSwitch"]
    assert told["steps"][0]["does"] == "starts a new primary from the newest snapshot"
    shown = holdfast(tmp_path, "start", STREAM, "--dry-run").output
    assert "2.  AwaitCatchUp" in shown
    assert "waits until the primary has worked off what was missed" in shown
    assert world.store.streams.get(STREAM) is None
    assert world.store.journal.of(STREAM) == []
    assert not object_store_runs(world)


def test_a_start_of_a_stream_that_runs_has_nothing_to_do(tmp_path: Path, world: Project) -> None:
    a_running_stream(world)
    world.store.tiers.desire(STREAM, Tier.PASSIVE_REPLICATION, why="a test", run="")
    assert "clicks  runs already" in holdfast(tmp_path, "start", STREAM, "--dry-run").output


def test_a_stop_shows_the_secondary_first_and_stops_nothing(tmp_path: Path, world: Project) -> None:
    a_running_stream(world)
    a_secondary(world)
    [told] = facts(tmp_path, "stop", STREAM, "--dry-run")["streams"]
    assert steps(told) == ["RequestExit", "AwaitExit", "RequestExit", "AwaitExit"]
    shown = holdfast(tmp_path, "stop", STREAM, "--dry-run").output
    assert "1.  RequestExit  asks s1 to finish its epoch" in shown
    assert f"waits until {REPLICA} has left" in shown
    assert observe(world, STREAM).wanted
    assert world.store.journal.of(STREAM) == []


def test_a_stop_of_what_does_not_run_has_nothing_to_do(tmp_path: Path, world: Project) -> None:
    assert "clicks  does not run" in holdfast(tmp_path, "stop", STREAM, "--dry-run").output


def test_of_several_streams_each_plan_has_its_name(tmp_path: Path) -> None:
    a_project(tmp_path, clicks=written(), views=written(name="views"))
    with a_world(tmp_path):
        shown = holdfast(tmp_path, "start", "clicks", "views", "--dry-run").output.splitlines()
    assert [line for line in shown if line in ("clicks", "views")] == ["clicks", "views"]
    assert sum("Launch" in line for line in shown) == 2


def test_a_proof_is_planned_from_the_catalogue_alone(tmp_path: Path, world: Project) -> None:
    a_running_stream(world)
    snapshot = a_snapshot(world, 1)
    told = facts(tmp_path, "snapshots", "prove", STREAM, "--dry-run")
    assert steps(told) == ["RestoreScratch", "Recompute", "RecordProof"]
    assert snapshot in told["steps"][0]["does"]
    assert "computes epoch 2 from there without sending" in told["steps"][1]["does"]
    assert "3.  RecordProof" in holdfast(tmp_path, "snapshots", "prove", STREAM, "--dry-run").output
    assert world.store.journal.of(STREAM) == []
    assert not object_store_runs(world)


def test_a_proof_that_cannot_be_is_refused_in_a_dry_run_too(tmp_path: Path, world: Project) -> None:
    refused = holdfast(tmp_path, "snapshots", "prove", STREAM, "--dry-run")
    assert refused.exit_code == 1
    assert "clicks has no available snapshot" in refused.output
