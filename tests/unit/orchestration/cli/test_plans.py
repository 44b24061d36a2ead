"""`--dry-run` of start, stop and prove: what each step would do, and nothing is touched."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.ft_policies.tiers import Tier
from holdfast.observation.status import observe_stream
from holdfast.resources.project import Project
from tests.builders.projects import a_project, stream_yaml
from tests.builders.recorded_stream import (
    REPLICA,
    STREAM,
    a_running_stream,
    a_snapshot,
    an_open_project,
)
from tests.builders.streams import a_secondary
from tests.cli import holdfast_json, run_holdfast


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A declared stream whose object store Holdfast would have to start itself."""
    with an_open_project(a_project(tmp_path, clicks=stream_yaml(tier="deployed"))) as project:
        yield project


def steps(output: dict[str, list[dict[str, str]]]) -> list[str]:
    return [step["step"] for step in output["steps"]]


def object_store_runs(project: Project) -> bool:
    embedded = project.embedded_s3()
    return embedded is None or embedded.alive()


def test_a_start_of_a_stream_that_never_ran_is_planned_and_declares_nothing(
    tmp_path: Path, project: Project
) -> None:
    [output] = holdfast_json(tmp_path, "start", STREAM, "--dry-run")["streams"]
    assert steps(output) == ["Launch", "AwaitCatchUp", "LaunchSecondary", "TurnSwitch"]
    assert output["steps"][0]["does"] == "starts a new primary from the newest snapshot"
    shown = run_holdfast(tmp_path, "start", STREAM, "--dry-run").output
    assert "2.  AwaitCatchUp" in shown
    assert "waits until the primary has caught up with the missed epochs" in shown
    assert project.store.streams.get(STREAM) is None
    assert project.store.journal.of(STREAM) == []
    assert not object_store_runs(project)


def test_a_start_of_a_stream_that_runs_has_nothing_to_do(tmp_path: Path, project: Project) -> None:
    a_running_stream(project)
    project.store.tiers.desire(STREAM, Tier.PASSIVE_REPLICATION, why="a test", run="")
    assert (
        "clicks  is already running" in run_holdfast(tmp_path, "start", STREAM, "--dry-run").output
    )


def test_a_stop_shows_the_secondary_first_and_stops_nothing(
    tmp_path: Path, project: Project
) -> None:
    a_running_stream(project)
    a_secondary(project)
    [output] = holdfast_json(tmp_path, "stop", STREAM, "--dry-run")["streams"]
    assert steps(output) == ["RequestExit", "AwaitExit", "RequestExit", "AwaitExit"]
    shown = run_holdfast(tmp_path, "stop", STREAM, "--dry-run").output
    assert "1.  RequestExit  asks s1 to finish its epoch" in shown
    assert f"waits until {REPLICA} has left" in shown
    assert observe_stream(project, STREAM).wanted
    assert project.store.journal.of(STREAM) == []


def test_a_stop_of_what_does_not_run_has_nothing_to_do(tmp_path: Path, project: Project) -> None:
    assert "clicks  is not running" in run_holdfast(tmp_path, "stop", STREAM, "--dry-run").output


def test_of_several_streams_each_plan_has_its_name(tmp_path: Path) -> None:
    a_project(tmp_path, clicks=stream_yaml(), views=stream_yaml(name="views"))
    with an_open_project(tmp_path):
        shown = run_holdfast(tmp_path, "start", "clicks", "views", "--dry-run").output.splitlines()
    assert [line for line in shown if line in ("clicks", "views")] == ["clicks", "views"]
    assert sum("Launch" in line for line in shown) == 2


def test_a_proof_is_planned_from_the_catalogue_alone(tmp_path: Path, project: Project) -> None:
    a_running_stream(project)
    snapshot = a_snapshot(project, 1)
    output = holdfast_json(tmp_path, "snapshots", "prove", STREAM, "--dry-run")
    assert steps(output) == ["RestoreScratch", "Recompute", "RecordProof"]
    assert snapshot in output["steps"][0]["does"]
    assert "computes epoch 2 from there without sending" in output["steps"][1]["does"]
    assert (
        "3.  RecordProof"
        in run_holdfast(tmp_path, "snapshots", "prove", STREAM, "--dry-run").output
    )
    assert project.store.journal.of(STREAM) == []
    assert not object_store_runs(project)


def test_a_proof_that_cannot_be_is_refused_in_a_dry_run_too(
    tmp_path: Path, project: Project
) -> None:
    refused = run_holdfast(tmp_path, "snapshots", "prove", STREAM, "--dry-run")
    assert refused.exit_code == 1
    assert "clicks has no available snapshot" in refused.output
