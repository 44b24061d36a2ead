"""`holdfast restore` and the job `restore_stream` on a real S3 endpoint and a real table."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from typer.testing import CliRunner

from holdfast.assets.project_resource import LocalProject
from holdfast.configs.project import ProjectConfig
from holdfast.orchestration.cli.main import app
from holdfast.orchestration.definitions import build_definitions
from holdfast.resources.object_store.embedded import EmbeddedS3
from holdfast.resources.object_store.resolve import connector, connector_to_place
from holdfast.resources.object_store.s3 import S3ObjectStore
from holdfast.resources.project import Project
from tests.builders.recorded_stream import (
    STREAM,
    a_restorable_project,
    an_open_project,
    entries,
    output,
    ship,
    snapshots,
)
from tests.cli import holdfast_json, run_holdfast

pytestmark = pytest.mark.integration
STEPS = ["BeginHistory", "MarkSnapshots", "RollOutput", "EndRestore"]
COPIES = {"bucket": "copies", "prefix": "of/snapshots"}


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with a_restorable_project(tmp_path / "project") as opened:
        yield opened


def steps_of(report: dict[str, Any]) -> list[str]:
    return [step["step"] for step in report["steps"]]


def require_untouched(project: Project) -> None:
    assert output(project) == entries(project) == list(range(8))
    assert project.store.restores.of(STREAM) == []


def test_a_dry_run_tells_what_is_undone_and_changes_nothing(project: Project) -> None:
    root = project.config.root
    report = holdfast_json(root, "restore", STREAM, "--epoch", "5", "--dry-run")
    assert steps_of(report) == STEPS
    assert all(step["does"] for step in report["steps"])
    assert (report["undone_epochs"], report["undone_rows"]) == (2, 2)
    assert (report["computed_epochs"], report["snapshot"]) == (3, "000000000004-1-r1")
    shown = run_holdfast(root, "restore", STREAM, "--epoch", "5", "--dry-run").output
    assert "clicks → epoch 5" in shown
    assert "undoes 2 epochs" in shown
    assert "3.  RollOutput" in shown
    require_untouched(project)


def test_a_restore_shows_its_steps_and_what_it_has_superseded(project: Project) -> None:
    root = project.config.root
    result = run_holdfast(root, "restore", STREAM, "--epoch", "5", "--yes", "--why", "bad app")
    assert result.exit_code == 0, result.output
    assert [name for name in STEPS if f"✔ clicks  {name}" in result.output] == STEPS
    assert "✔ clicks  restored to epoch 5" in result.output
    assert output(project) == entries(project) == [0, 1, 2, 3, 4, 5]
    listed = holdfast_json(root, "snapshots", "list", STREAM)["snapshots"]
    assert [(snapshot["epoch"], snapshot["state"]) for snapshot in listed] == [
        (6, "superseded"),
        (4, "not in the catalogue"),
        (1, "not in the catalogue"),
    ]
    again = run_holdfast(root, "restore", STREAM, "--epoch", "5", "--yes")
    assert (again.exit_code, len(project.store.restores.of(STREAM))) == (0, 1)


def test_it_asks_before_it_undoes_anything(project: Project) -> None:
    arguments = ["--project", str(project.config.root), "restore", STREAM, "--epoch", "5"]
    result = CliRunner().invoke(app, arguments, input="n\n")
    assert result.exit_code == 1
    assert "Undo 2 epochs of clicks?" in result.output
    require_untouched(project)
    assert CliRunner().invoke(app, arguments, input="y\n").exit_code == 0
    assert output(project) == [0, 1, 2, 3, 4, 5]


def test_what_stands_in_the_way_is_reported_in_two_lines(project: Project) -> None:
    result = run_holdfast(project.config.root, "restore", STREAM, "--epoch", "9", "--yes")
    assert result.exit_code == 1
    assert "error: epoch 9 of clicks is not committed: the last one is 7" in result.output
    assert "hint: name an epoch up to 7" in result.output
    require_untouched(project)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--epoch", "5", "--at", "2026-01-01"), "names more than one of epoch, time and snapshot"),
        (("--at", "soon"), "is not a time"),
        (("--epoch", "5", "--output", "there"), "only a fork"),
        (("--epoch", "5", "--json"), "add --yes"),
    ],
)
def test_wrong_usage_is_reported(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    with an_open_project(tmp_path):
        result = run_holdfast(tmp_path, "restore", STREAM, *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())


def test_a_fork_is_a_stream_of_its_own(project: Project) -> None:
    root = project.config.root
    report = holdfast_json(root, "restore", STREAM, "--epoch", "5", "--as", "trial")
    assert steps_of(report) == ["CopySnapshot", "CopyOutput", "CopyEpochs", "WriteDeclaration"]
    require_untouched(project)
    assert snapshots(project) == [6, 4, 1]
    forked = Project(ProjectConfig.load(root), project.store)
    assert output(forked, "trial") == entries(forked, "trial") == [0, 1, 2, 3, 4, 5]
    assert holdfast_json(root, "snapshots", "verify", "trial")["snapshots"][0]["problems"] == []
    refused = run_holdfast(root, "restore", STREAM, "--epoch", "5", "--as", "trial")
    assert refused.exit_code == 1
    assert "there is a stream trial already" in refused.output


def require_restored_from(project: Project, **place: str) -> None:
    """All of the stream's own objects are lost, and there are copies in that place."""
    root = project.config.root
    deployment = root / "configs" / "holdfast.yaml"
    declared = yaml.safe_load(deployment.read_text()) if deployment.exists() else {}
    deployment.write_text(yaml.safe_dump({**declared, "places": {"copies": place}}))
    elsewhere = Project(ProjectConfig.load(root), project.store)
    connect = connector(elsewhere.config.deployment.object_store, elsewhere.config.home)
    copies = elsewhere.config.deployment.place("copies")
    S3ObjectStore(connector_to_place(copies, connect)).ensure_bucket()
    ship(elsewhere.vault_elsewhere("copies", STREAM), project.config.home / "copies")
    objects = project.object_store()
    objects.delete([item.key for item in objects.list("")])
    assert snapshots(project) == []
    report = holdfast_json(root, "restore", STREAM, "--epoch", "5", "--from", "copies", "--yes")
    assert steps_of(report) == ["FetchSnapshot", *STEPS]
    assert snapshots(project) == [4]


def test_a_snapshot_comes_from_another_bucket_of_the_same_endpoint(project: Project) -> None:
    require_restored_from(project, **COPIES)


def test_a_snapshot_comes_from_another_endpoint(
    project: Project, embedded_s3: EmbeddedS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = project.embedded_s3(), embedded_s3.connection()
    assert here is not None
    assert here.connection().endpoint_url != there.endpoint_url
    monkeypatch.setenv("THEIR_KEY", there.access_key_id or "")
    monkeypatch.setenv("THEIR_SECRET", there.secret_access_key or "")
    access = {
        "endpoint_url": there.endpoint_url or "",
        "access_key_id_env": "THEIR_KEY",
        # pragma: allowlist nextline secret
        "secret_access_key_env": "THEIR_SECRET",
    }
    require_restored_from(project, **COPIES, **access)


def test_a_run_cannot_choose_an_address(project: Project) -> None:
    address = "s3://b/p?endpoint_url=http://127.0.0.1:9&access_key_id_env=PATH"
    refused = run_holdfast(
        project.config.root, "restore", STREAM, "--epoch", "5", "--from", address, "--yes"
    )
    assert refused.exit_code == 1
    assert "declared places" in refused.output
    assert not ran(project, epoch=5, snapshots_from=address).success
    require_untouched(project)


def ran(project: Project, **fields: object) -> dg.ExecuteInProcessResult:
    config = project.config
    job = build_definitions(config, LocalProject(config.root)).resolve_job_def("restore_stream")
    run_config = {"ops": {"restore": {"config": {"stream": STREAM, **fields}}}}
    return job.execute_in_process(run_config=run_config, raise_on_error=False)


def shown_by(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    [event] = [e for e in result.all_events if e.event_type_value == "STEP_OUTPUT"]
    return dict(event.step_output_data.metadata)


def test_the_job_shows_the_plan_and_then_the_steps(project: Project) -> None:
    planned = ran(project, epoch=5, dry_run=True)
    assert planned.success
    plan = shown_by(planned)
    assert [row.data["step"] for row in plan["plan"].records] == STEPS
    assert plan["undone_epochs"].value == 2
    require_untouched(project)
    done = ran(project, epoch=5, why="bad app")
    assert done.success
    assert [row.data["step"] for row in shown_by(done)["steps"].records] == STEPS
    assert output(project) == entries(project) == [0, 1, 2, 3, 4, 5]


def test_the_job_forks_and_refuses(project: Project) -> None:
    assert ran(project, snapshot="000000000004-1-r1", fork="trial").success
    forked = Project(ProjectConfig.load(project.config.root), project.store)
    assert output(forked, "trial") == [0, 1, 2, 3, 4]
    refused = ran(project, epoch=9)
    assert not refused.success
    require_untouched(project)
