"""`holdfast snapshots …` on a real S3 endpoint, with snapshots of a synthetic checkpoint."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.resources.control_store.records import SnapshotRow, SnapshotState
from holdfast.resources.project import Project
from tests.builders.checkpoints import SyntheticCheckpoint
from tests.builders.recorded_stream import STREAM, an_open_project
from tests.cli import holdfast_json, run_holdfast

pytestmark = pytest.mark.integration
EPOCHS = (4, 9, 14)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A stopped stream with three snapshots; the last is not in the catalogue."""
    with an_open_project(tmp_path / "project") as opened:
        opened.ensure_object_store()
        _ship(opened, tmp_path)
        yield opened
        embedded = opened.embedded_s3()
        assert embedded is not None
        embedded.stop()


def _ship(project: Project, folder: Path) -> None:
    checkpoint = SyntheticCheckpoint(folder / "checkpoint")
    parent = None
    for epoch in EPOCHS:
        checkpoint.commit(epoch - checkpoint.epoch)
        shipped = project.vault(STREAM).ship(
            checkpoint.root,
            epoch,
            token=1,
            replica="clicks-1",
            parent=parent,
            conf={"spark.sql.shuffle.partitions": "2"},
            created_at=project.store.now(),
            scratch=folder / "scratch",
        )
        parent = shipped.manifest
        if epoch != EPOCHS[-1]:
            _catalogue(project, shipped.manifest.id, epoch)


def _catalogue(project: Project, snapshot: str, epoch: int) -> None:
    project.store.snapshots.record(
        SnapshotRow(
            stream=STREAM,
            id=snapshot,
            epoch=epoch,
            token=1,
            replica="clicks-1",
            manifest_key=f"{STREAM}/manifests/{snapshot}.json.gz",
            files=10,
            total_bytes=1000,
            new_bytes=100,
            requests=2,
            seconds=0.1,
        )
    )


def test_snapshots_are_listed_from_the_store_with_what_the_catalogue_knows(
    project: Project,
) -> None:
    rows = holdfast_json(project.config.root, "snapshots", "list", STREAM)["snapshots"]

    assert [snapshot["epoch"] for snapshot in rows] == [14, 9, 4]
    assert [snapshot["state"] for snapshot in rows] == [
        "not in the catalogue",
        "available",
        "available",
    ]
    assert rows[0]["files"] is None
    assert rows[1]["files"] == 10
    assert (
        "not in the catalogue"
        in run_holdfast(project.config.root, "snapshots", "list", STREAM).stdout
    )


def test_a_manifest_shows_packs_live_shares_and_conf(project: Project) -> None:
    root = project.config.root

    newest = holdfast_json(root, "snapshots", "show", STREAM)
    shown = run_holdfast(root, "snapshots", "show", STREAM).stdout
    every_file = run_holdfast(root, "snapshots", "show", STREAM, newest["id"], "--files").stdout

    assert newest["epoch"] == 14
    assert newest["conf"] == {"spark.sql.shuffle.partitions": "2"}
    assert all(0 < pack["live_share"] <= 1 for pack in newest["packs"])
    assert sum(file["bytes"] for file in newest["files"]) == newest["total_bytes"]
    assert "spark.sql.shuffle.partitions" in shown
    assert "commits/14" not in shown
    assert "commits/14" in every_file


def test_a_proof_is_shown_with_its_age_and_what_it_took(project: Project) -> None:
    root = project.config.root
    newest, older, _ = holdfast_json(root, "snapshots", "list", STREAM)["snapshots"]
    project.store.snapshots.record_proof(STREAM, older["id"], 31.4)

    assert " s ago, in 31.4 s" in run_holdfast(root, "snapshots", "list", STREAM).stdout
    assert holdfast_json(root, "snapshots", "show", STREAM, older["id"])["proven_seconds"] == 31.4
    shown = run_holdfast(root, "snapshots", "show", STREAM, older["id"]).stdout
    assert " s ago, in 31.4 s" in shown
    assert "proven: never" in run_holdfast(root, "snapshots", "show", STREAM, newest["id"]).stdout


def test_good_snapshots_verify_and_the_catalogue_notes_it(project: Project) -> None:
    rows = holdfast_json(project.config.root, "snapshots", "verify", STREAM, "--all")["snapshots"]

    assert [snapshot["problems"] for snapshot in rows] == [[], [], []]
    assert all(row.verified_at for row in project.store.snapshots.of(STREAM))


def test_a_damaged_pack_is_found_and_marked(project: Project) -> None:
    root, home = project.config.root, project.config.home
    newest, _, oldest = holdfast_json(root, "snapshots", "list", STREAM)["snapshots"]
    (pack,) = (home / "objects").rglob(f"{newest['id']}*.pack")
    body = bytearray(pack.read_bytes())
    body[0] ^= 0xFF
    pack.write_bytes(bytes(body))

    rows = holdfast_json(root, "snapshots", "verify", STREAM, code=1)["snapshots"]
    assert rows[0]["problems"]
    assert (
        holdfast_json(root, "snapshots", "verify", STREAM, oldest["id"])["snapshots"][0]["problems"]
        == []
    )

    result = run_holdfast(root, "snapshots", "restore", STREAM, "--into", str(root / "back"))
    assert result.exit_code == 1
    assert "damaged" in result.stderr
    assert not (root / "back").exists()


def test_a_checkpoint_is_restored_up_to_an_epoch_into_a_new_folder_only(project: Project) -> None:
    root = project.config.root
    into = root / "back"

    restored = holdfast_json(
        root, "snapshots", "restore", STREAM, "--epoch", "10", "--into", str(into)
    )
    again = run_holdfast(root, "snapshots", "restore", STREAM, "--into", str(into))

    assert restored["epoch"] == 9
    assert (into / "commits" / "9").exists()
    assert again.exit_code == 1
    assert "exists already" in again.stderr


def test_an_epoch_without_a_snapshot_is_an_error(project: Project) -> None:
    root = project.config.root

    early = run_holdfast(
        root, "snapshots", "restore", STREAM, "--epoch", "1", "--into", str(root / "x")
    )
    both = run_holdfast(
        root, "snapshots", "restore", STREAM, "an-id", "--epoch", "1", "--into", str(root / "x")
    )

    assert early.exit_code == 1
    assert "up to epoch 1" in early.stderr
    assert both.exit_code == 2


def test_pruning_says_why_and_a_dry_run_drops_nothing(project: Project) -> None:
    root = project.config.root
    declared = root / "configs" / "streams" / "clicks.yaml"
    declared.write_text(declared.read_text() + "retention:\n  last: 1\n")

    dry = holdfast_json(root, "snapshots", "prune", STREAM, "--dry-run")["pruned"]
    assert len(holdfast_json(root, "snapshots", "list", STREAM)["snapshots"]) == 3
    done = holdfast_json(root, "snapshots", "prune", STREAM)["pruned"]
    left = holdfast_json(root, "snapshots", "list", STREAM)["snapshots"]

    assert dry["dropped"] == done["dropped"]
    assert [snapshot["epoch"] for snapshot in left] == [14]
    assert all(verdict["reasons"] for verdict in done["verdicts"])
    rows = project.store.snapshots.of(STREAM, available_only=False)
    assert {row.state for row in rows} == {SnapshotState.DROPPED}


def test_a_stopped_object_store_is_started_for_the_command_only(project: Project) -> None:
    embedded = project.embedded_s3()
    assert embedded is not None
    embedded.stop()

    rows = holdfast_json(project.config.root, "snapshots", "list", STREAM)["snapshots"]

    assert len(rows) == 3
    assert not embedded.alive()
