"""`holdfast doctor` on a real S3 endpoint, with snapshots of a synthetic checkpoint."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.ft_policies.doctor.findings import FindingKind
from holdfast.resources.project import Project
from tests.builders.checkpoints import SyntheticCheckpoint
from tests.builders.control_rows import record_snapshot
from tests.builders.recorded_stream import REPLICA, STREAM, an_open_project, commit, decide
from tests.cli import holdfast_json, run_holdfast

pytestmark = pytest.mark.integration
EPOCHS = (4, 9)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A stopped stream without output, with two snapshots."""
    with an_open_project(tmp_path / "project") as opened:
        opened.ensure_object_store()
        decide(opened, 12)
        for epoch in range(12):
            commit(opened, epoch, rows=0)
        _ship(opened, tmp_path)
        yield opened
        embedded = opened.embedded_s3()
        assert embedded is not None
        embedded.stop()


def _ship(project: Project, folder: Path) -> None:
    checkpoint, parent, vault = (
        SyntheticCheckpoint(folder / "checkpoint"),
        None,
        project.vault(STREAM),
    )
    for epoch in EPOCHS:
        checkpoint.commit(epoch - checkpoint.epoch)
        shipped = vault.ship(
            checkpoint.root,
            epoch,
            token=1,
            replica=REPLICA,
            parent=parent,
            conf={},
            created_at=project.store.now(),
            scratch=folder / "scratch",
        )
        parent = shipped.manifest
        record_snapshot(project.store, vault, STREAM, parent.id)


def packs(project: Project) -> list[str]:
    """The keys of all packs, oldest first."""
    return [pack.key for pack in project.object_store().list(f"{STREAM}/packs/")]


def test_a_well_stream_is_said_to_be_so(project: Project) -> None:
    result = run_holdfast(project.config.root, "doctor", STREAM, "--deep")
    assert result.exit_code == 0, result.output
    assert "clicks: no finding" in result.output
    assert holdfast_json(project.config.root, "doctor", STREAM)["findings"] == []


def test_a_lost_pack_is_shown_planned_mended_undone_and_confirmed(project: Project) -> None:
    root = project.config.root
    project.object_store().delete(packs(project)[-1:])

    result = run_holdfast(root, "doctor", STREAM)
    assert result.exit_code == 3, result.output
    for text in ("warning", "pack_gone", "→ set_aside_snapshots", "replays 5 epochs, 500 rows"):
        assert text in result.output
    (finding,) = holdfast_json(root, "doctor", STREAM, code=3)["findings"]
    assert finding["repairs"][0]["cost"]["epochs_replayed"] == 5
    assert finding["sentence"] == FindingKind.PACK_GONE.sentence

    plan = run_holdfast(root, "doctor", STREAM, "--repair", "all", "--dry-run")
    assert plan.exit_code == 0, plan.output
    assert "1.  SetAsideSnapshots" in plan.output
    assert len(project.vault(STREAM).list()) == 2

    refused = run_holdfast(root, "doctor", STREAM, "--repair", "all")
    assert refused.exit_code == 1, "the question was not answered with yes"
    assert len(project.vault(STREAM).list()) == 2

    mended = holdfast_json(root, "doctor", STREAM, "--repair", "set-aside-snapshots", "--yes")
    assert [step["step"] for step in mended["steps"]] == ["SetAsideSnapshots"]
    assert mended["left"]["findings"] == []
    assert [snapshot.epoch for snapshot in project.vault(STREAM).list()] == [4]
    assert f"--undo {mended['run']}" in run_holdfast(root, "doctor", STREAM).output

    undone = holdfast_json(root, "doctor", STREAM, "--undo", mended["run"])
    assert (undone["undone"], undone["objects"]) == (True, 2), "its manifest and its lost pack"
    assert holdfast_json(root, "doctor", STREAM, code=3)["aside"] == []

    again = holdfast_json(root, "doctor", STREAM, "--repair", "all", "--yes")
    confirmed = run_holdfast(root, "doctor", STREAM, "--confirm", again["run"])
    assert "what it had set aside is deleted" in confirmed.output
    assert holdfast_json(root, "doctor", STREAM)["aside"] == []


def test_no_snapshot_left_is_critical(project: Project) -> None:
    project.object_store().delete(packs(project))
    result = run_holdfast(project.config.root, "doctor", STREAM)
    assert result.exit_code == 4, result.output
    assert "→ rebuild_state" in result.output
    assert "replays 12 epochs, 1,200 rows" in result.output


def test_wrong_usage_and_wrong_names_are_errors_that_say_what_is_right(project: Project) -> None:
    root = project.config.root
    for usage in (
        ("--dry-run",),
        ("--yes",),
        ("--repair", "all", "--undo", "x"),
        ("--repair", "all", "--json"),
    ):
        assert run_holdfast(root, "doctor", STREAM, *usage).exit_code == 2
    named = run_holdfast(root, "doctor", STREAM, "--repair", "set_aside_snapshot", "--yes")
    assert named.exit_code == 1
    assert "did you mean set_aside_snapshots?" in named.stderr
    idle = run_holdfast(root, "doctor", STREAM, "--repair", "ship_snapshot", "--yes")
    assert "ship_snapshot repairs none of the findings of clicks" in idle.stderr
    assert "runs that have: none" in run_holdfast(root, "doctor", STREAM, "--undo", "cli-1").stderr
