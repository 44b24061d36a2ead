"""`holdfast doctor` on a real S3 endpoint, with snapshots of a synthetic checkpoint."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.resources.project import Project
from tests.fakes.checkpoints import SyntheticCheckpoint
from tests.support.cli import facts, holdfast
from tests.support.cli_world import REPLICA, STREAM, a_world, commit, decide
from tests.support.control_builders import recorded

pytestmark = pytest.mark.integration
EPOCHS = (4, 9)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Project]:
    """A stopped stream without output, with two snapshots."""
    with a_world(tmp_path / "project") as opened:
        opened.ensure_object_store()
        decide(opened, 12)
        for epoch in range(12):
            commit(opened, epoch, rows=0)
        _ship(opened, tmp_path)
        yield opened
        embedded = opened.embedded_s3()
        assert embedded is not None
        embedded.stop()


def _ship(world: Project, folder: Path) -> None:
    checkpoint, parent, vault = (
        SyntheticCheckpoint(folder / "checkpoint"),
        None,
        world.vault(STREAM),
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
            created_at=world.store.now(),
            scratch=folder / "scratch",
        )
        parent = shipped.manifest
        recorded(world.store, vault, STREAM, parent.id)


def packs(world: Project) -> list[str]:
    """The keys of all packs, oldest first."""
    return [one.key for one in world.object_store().list(f"{STREAM}/packs/")]


def test_a_well_stream_is_said_to_be_so(world: Project) -> None:
    result = holdfast(world.config.root, "doctor", STREAM, "--deep")
    assert result.exit_code == 0, result.output
    assert "clicks: all well" in result.output
    assert facts(world.config.root, "doctor", STREAM)["findings"] == []


def test_a_lost_pack_is_told_planned_mended_undone_and_confirmed(world: Project) -> None:
    root = world.config.root
    world.object_store().delete(packs(world)[-1:])

    told = holdfast(root, "doctor", STREAM)
    assert told.exit_code == 3, told.output
    for text in ("warning", "pack_gone", "→ set_aside_snapshots", "replays 5 epochs, 500 rows"):
        assert text in told.output
    (finding,) = facts(root, "doctor", STREAM, code=3)["findings"]
    assert finding["repairs"][0]["cost"]["epochs_replayed"] == 5

    plan = holdfast(root, "doctor", STREAM, "--repair", "all", "--dry-run")
    assert plan.exit_code == 0, plan.output
    assert "1.  SetAsideSnapshots" in plan.output
    assert len(world.vault(STREAM).list()) == 2

    refused = holdfast(root, "doctor", STREAM, "--repair", "all")
    assert refused.exit_code == 1, "nobody said yes"
    assert len(world.vault(STREAM).list()) == 2

    mended = facts(root, "doctor", STREAM, "--repair", "set-aside-snapshots", "--yes")
    assert [step["step"] for step in mended["steps"]] == ["SetAsideSnapshots"]
    assert mended["left"]["findings"] == []
    assert [one.epoch for one in world.vault(STREAM).list()] == [4]
    assert f"--undo {mended['run']}" in holdfast(root, "doctor", STREAM).output

    undone = facts(root, "doctor", STREAM, "--undo", mended["run"])
    assert (undone["undone"], undone["objects"]) == (True, 2), "its manifest and its lost pack"
    assert facts(root, "doctor", STREAM, code=3)["aside"] == []

    again = facts(root, "doctor", STREAM, "--repair", "all", "--yes")
    confirmed = holdfast(root, "doctor", STREAM, "--confirm", again["run"])
    assert "is gone for good" in confirmed.output
    assert facts(root, "doctor", STREAM)["aside"] == []


def test_no_snapshot_left_is_critical(world: Project) -> None:
    world.object_store().delete(packs(world))
    told = holdfast(world.config.root, "doctor", STREAM)
    assert told.exit_code == 4, told.output
    assert "→ rebuild_state" in told.output
    assert "replays 12 epochs, 1,200 rows" in told.output


def test_wrong_usage_and_wrong_names_are_errors_that_say_what_is_right(world: Project) -> None:
    root = world.config.root
    for usage in (
        ("--dry-run",),
        ("--yes",),
        ("--repair", "all", "--undo", "x"),
        ("--repair", "all", "--json"),
    ):
        assert holdfast(root, "doctor", STREAM, *usage).exit_code == 2
    named = holdfast(root, "doctor", STREAM, "--repair", "set_aside_snapshot", "--yes")
    assert named.exit_code == 1
    assert "did you mean set_aside_snapshots?" in named.stderr
    idle = holdfast(root, "doctor", STREAM, "--repair", "ship_snapshot", "--yes")
    assert "nothing that was found in clicks is mended by ship_snapshot" in idle.stderr
    assert "runs that have: none" in holdfast(root, "doctor", STREAM, "--undo", "cli-1").stderr
