"""Restoring beside an earlier restore: what is there is linked, everything else fetched and verified."""

import json
from pathlib import Path

import pytest

from holdfast.resources.vault.objects.manifest import Manifest, UnusableSnapshotError
from holdfast.resources.vault.restore import LinkSource
from tests.builders.checkpoints import StateKind
from tests.builders.vaults import ShippedStream, a_stream, tree

OPERATOR = "state/0/_metadata/v2/0"


def restored_base(stream: ShippedStream, folder: Path, epochs: int = 4) -> LinkSource:
    manifest = stream.ship(epochs).manifest
    stream.vault.restore(manifest, folder)
    return LinkSource(folder, manifest)


def shared(manifest: Manifest, first: Path, other: Path) -> set[str]:
    """The paths that two folders have as one file."""
    return {
        file.path
        for file in manifest.files
        if (first / file.path).is_file() and (first / file.path).samefile(other / file.path)
    }


def record_folder(stream: ShippedStream) -> None:
    """Make the checkpoint name its own folder, as `transformWithState` does."""
    path = str(stream.checkpoint.root / "state/0/_stateSchema/default/0_x")
    infos = [{"storeName": "default", "numPartitions": 2, "stateSchemaFilePaths": [path]}]
    file = stream.checkpoint.root / OPERATOR
    file.parent.mkdir(parents=True)
    file.write_text("v2\n" + json.dumps({"stateStoreInfo": infos}))


@pytest.mark.parametrize("kind", list(StateKind))
def test_only_what_is_new_is_fetched_and_the_folder_is_the_same(
    tmp_path: Path, kind: StateKind
) -> None:
    stream = a_stream(tmp_path, kind=kind, delta_bytes=5000, snapshot_every=1000)
    base = restored_base(stream, tmp_path / "old", epochs=20)
    newer = stream.ship(1)
    restored = stream.vault.restore(newer.manifest, tmp_path / "new", base=base)
    assert tree(tmp_path / "new") == stream.contents[newer.manifest.id]
    assert restored.bytes == newer.manifest.state_bytes
    assert restored.fetched_bytes == newer.new_bytes < restored.bytes / 3
    assert restored.requests == 1
    paths = {file.path for file in base.manifest.files}
    assert shared(newer.manifest, base.folder, tmp_path / "new") == {
        file.path for file in newer.manifest.files if file.path in paths
    }


def test_without_a_base_all_bytes_are_fetched(tmp_path: Path) -> None:
    stream = a_stream(tmp_path)
    manifest = stream.ship(4).manifest
    restored = stream.vault.restore(manifest, tmp_path / "back")
    assert restored.fetched_bytes == restored.bytes == manifest.state_bytes


def test_the_very_same_snapshot_needs_no_request(tmp_path: Path) -> None:
    stream = a_stream(tmp_path)
    base = restored_base(stream, tmp_path / "old")
    progress: list[tuple[int, int]] = []
    restored = stream.vault.restore(
        base.manifest,
        tmp_path / "new",
        base=base,
        progress=lambda done, total: progress.append((done, total)),
    )
    assert (restored.requests, restored.fetched_bytes) == (0, 0)
    assert progress == [(restored.bytes, restored.bytes)]
    assert tree(tmp_path / "new") == tree(tmp_path / "old")


def test_a_file_that_is_gone_or_has_another_length_is_fetched(tmp_path: Path) -> None:
    stream = a_stream(tmp_path, snapshot_every=1000)
    base = restored_base(stream, tmp_path / "old")
    (base.folder / "state/0/0/1.delta").unlink()
    (base.folder / "state/0/0/2.delta").write_bytes(b"longer than it was" * 100)
    newer = stream.ship(1)
    restored = stream.vault.restore(newer.manifest, tmp_path / "new", base=base)
    assert tree(tmp_path / "new") == stream.contents[newer.manifest.id]
    assert restored.fetched_bytes > newer.new_bytes


def test_a_file_of_the_same_path_with_another_digest_is_fetched(tmp_path: Path) -> None:
    stream, other = a_stream(tmp_path / "a", seed=1), a_stream(tmp_path / "b", seed=2)
    base = restored_base(other, tmp_path / "old")
    manifest = stream.ship(4).manifest
    stream.vault.restore(manifest, tmp_path / "new", base=base)
    assert tree(tmp_path / "new") == stream.contents[manifest.id]


@pytest.mark.parametrize("errno", ["EXDEV", "EPERM", "EMLINK"])
def test_where_nothing_can_be_linked_everything_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, errno: str
) -> None:
    def refuse(_target: Path, _source: Path) -> None:
        raise OSError(errno)

    stream = a_stream(tmp_path)
    base = restored_base(stream, tmp_path / "old")
    newer = stream.ship(1)
    monkeypatch.setattr(Path, "hardlink_to", refuse)
    restored = stream.vault.restore(newer.manifest, tmp_path / "new", base=base)
    assert tree(tmp_path / "new") == stream.contents[newer.manifest.id]
    assert restored.fetched_bytes >= restored.bytes


def test_a_base_that_was_removed_is_no_hindrance(tmp_path: Path) -> None:
    stream = a_stream(tmp_path)
    base = LinkSource(tmp_path / "never", stream.ship(4).manifest)
    newer = stream.ship(1).manifest
    stream.vault.restore(newer, tmp_path / "new", base=base)
    assert tree(tmp_path / "new") == stream.contents[newer.id]


def test_what_names_its_folder_is_never_linked_and_names_the_new_one(tmp_path: Path) -> None:
    stream = a_stream(tmp_path)
    record_folder(stream)
    base = restored_base(stream, tmp_path / "old")
    before = (base.folder / OPERATOR).read_text()
    stream.vault.restore(base.manifest, tmp_path / "new", base=base)
    assert OPERATOR not in shared(base.manifest, base.folder, tmp_path / "new")
    assert (base.folder / OPERATOR).read_text() == before
    assert f"file:{tmp_path}/old/state" in before
    assert f"file:{tmp_path}/new/state" in (tmp_path / "new" / OPERATOR).read_text()


def test_what_is_fetched_is_still_verified_and_the_target_stays_unseen(tmp_path: Path) -> None:
    stream = a_stream(tmp_path, snapshot_every=1000)
    base = restored_base(stream, tmp_path / "old")
    newer = stream.ship(1).manifest
    stream.store.damage(stream.pack_of(newer, f"commits/{newer.epoch}"))
    with pytest.raises(UnusableSnapshotError, match="wrong digest"):
        stream.vault.restore(newer, tmp_path / "new", base=base)
    assert not (tmp_path / "new").exists()
    assert tree(base.folder) == stream.contents[base.manifest.id]
    again = stream.vault.restore(base.manifest, tmp_path / "new", base=base)
    assert again.fetched_bytes == 0


def test_removing_one_folder_leaves_the_other_whole(tmp_path: Path) -> None:
    stream = a_stream(tmp_path)
    base = restored_base(stream, tmp_path / "old")
    newer = stream.ship(1).manifest
    stream.vault.restore(newer, tmp_path / "new", base=base)
    for path in sorted(base.folder.rglob("*")):
        if path.is_file():
            path.unlink()
    assert tree(tmp_path / "new") == stream.contents[newer.id]
