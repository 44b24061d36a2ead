import errno
import json
import os
from pathlib import Path

import pytest

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.resources.vault import restore
from holdfast.resources.vault.objects.manifest import PackedFile, UnusableSnapshotError
from holdfast.resources.vault.restore import plan_fetches
from tests.builders.vaults import ShippedStream, a_stream, tree
from tests.fakes.object_store import PART_BYTES


def three_snapshots(folder: Path) -> ShippedStream:
    stream = a_stream(folder, snapshot_every=1000, delta_bytes=500)
    for _ in range(3):
        stream.ship(2)
    return stream


def at(offset: int, size: int, pack: str = "p") -> PackedFile:
    return PackedFile(f"f{offset}", pack, offset, size, b"")


def test_near_files_are_read_together_and_far_ones_apart() -> None:
    far = 10 << 20
    fetches = plan_fetches([at(far, 10), at(0, 10), at(10, 10), at(1000, 10), at(0, 5, "q")])
    assert [(f.pack, f.start, f.length, len(f.files)) for f in fetches] == [
        ("p", 0, 1010, 3),
        ("p", far, 10, 1),
        ("q", 0, 5, 1),
    ]


def test_a_range_does_not_grow_without_bound() -> None:
    fetches = plan_fetches([at(n << 20, 1 << 20) for n in range(10)])
    assert [f.length >> 20 for f in fetches] == [8, 2]


def test_files_in_one_place_are_read_each_by_itself_but_for_empty_ones() -> None:
    same, empty = PackedFile("same", "p", 0, 10, b""), PackedFile("z", "p", 0, 0, b"")
    fetches = plan_fetches([at(0, 10), same, empty, at(10, 5)])
    assert [(f.start, [file.path for file in f.files]) for f in fetches] == [
        (0, ["z", "f0"]),
        (0, ["same", "f10"]),
    ]


def test_equal_packs_of_one_snapshot_are_one_and_give_all_their_files(tmp_path: Path) -> None:
    stream = a_stream(tmp_path, partitions=3)
    stream.pack_limit_bytes = 1  # every file in a pack of its own, equal ones under one name
    shipped = stream.ship()
    assert len(shipped.manifest.packs) < len(shipped.manifest.files)
    stream.vault.restore(shipped.manifest, tmp_path / "back")
    assert tree(tmp_path / "back") == stream.contents[shipped.manifest.id]
    assert stream.vault.verify(shipped.manifest.id) == []


def test_a_large_file_is_one_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restore, "_FETCH_BYTES", 100)
    stream = a_stream(tmp_path, delta_bytes=PART_BYTES * 3 + 7)
    shipped = stream.ship(2)
    restored = stream.vault.restore(shipped.manifest, tmp_path / "back")
    assert tree(tmp_path / "back") == stream.contents[shipped.manifest.id]
    assert restored.requests == sum(call.startswith("get") for call in stream.store.calls)


def test_progress_ends_with_all_bytes(tmp_path: Path) -> None:
    stream = three_snapshots(tmp_path)
    progress: list[tuple[int, int]] = []
    assert stream.parent is not None
    stream.vault.restore(
        stream.parent,
        tmp_path / "back",
        progress=lambda done, total: progress.append((done, total)),
    )
    assert progress[-1] == (stream.parent.state_bytes, stream.parent.state_bytes)
    assert sorted(progress) == progress


def test_an_existing_folder_is_not_touched(tmp_path: Path) -> None:
    stream = three_snapshots(tmp_path)
    (tmp_path / "back").mkdir()
    assert stream.parent is not None
    with pytest.raises(PermanentError, match="exists already"):
        stream.vault.restore(stream.parent, tmp_path / "back")
    assert list((tmp_path / "back").iterdir()) == []


@pytest.mark.parametrize("fault", ["damage", "truncate", "remove"])
def test_a_bad_pack_makes_the_newest_older_snapshot_the_one(tmp_path: Path, fault: str) -> None:
    stream = three_snapshots(tmp_path)
    assert stream.parent is not None
    newest = stream.pack_of(stream.parent, "commits/5")
    match fault:
        case "damage":
            stream.store.damage(newest, at=3)
        case "truncate":
            stream.store.truncate(newest, to=100)
        case _:
            stream.store.delete([newest])
    assert stream.vault.verify(stream.parent.id) != []
    restored = stream.vault.restore_newest(tmp_path / "back")
    assert restored is not None
    assert restored.manifest.epoch == 3
    assert [refused.id for refused in restored.refused] == [stream.parent.id]
    assert tree(tmp_path / "back") == stream.contents[restored.manifest.id]
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".part")]


def test_a_torn_manifest_is_passed_over(tmp_path: Path) -> None:
    stream = three_snapshots(tmp_path)
    assert stream.parent is not None
    stream.store.truncate(f"words/manifests/{stream.parent.id}.json.gz", to=30)
    newest = stream.vault.restore_newest(tmp_path / "back")
    assert newest is not None
    assert newest.manifest.epoch == 3
    assert "cannot be read" in newest.refused[0].reason


def test_a_store_that_is_away_is_not_taken_for_damage(tmp_path: Path) -> None:
    stream = three_snapshots(tmp_path)
    for healthy_calls in range(3):
        store = stream.store
        failures: list[TransientError | None] = [None] * healthy_calls + [TransientError("away")]
        store.plan_failures(failures)
        with pytest.raises(TransientError, match="away"):
            stream.vault.restore_newest(tmp_path / "back")
        store.plan_failures([])
        assert not (tmp_path / "back").exists()


def test_without_snapshots_there_is_nothing_to_restore(tmp_path: Path) -> None:
    assert a_stream(tmp_path).vault.restore_newest(tmp_path / "back") is None


def test_if_nothing_verifies_that_is_an_error_and_not_an_empty_vault(tmp_path: Path) -> None:
    stream = three_snapshots(tmp_path)
    for key in list(stream.store.objects):
        if "/packs/" in key:
            stream.store.delete([key])
    with pytest.raises(UnusableSnapshotError, match="none of the 3 snapshots"):
        stream.vault.restore_newest(tmp_path / "back")


def test_verify_names_each_problem(tmp_path: Path) -> None:
    stream = three_snapshots(tmp_path)
    assert stream.parent is not None
    assert stream.vault.verify(stream.parent.id) == []
    stream.store.damage(stream.pack_of(stream.parent, "commits/5"), at=3)
    stream.store.truncate(stream.pack_of(stream.parent, "metadata"), to=700)
    problems = stream.vault.verify(stream.parent.id)
    assert any("has 700 bytes" in problem for problem in problems)
    assert any("wrong digest" in problem for problem in problems)
    assert stream.vault.verify("000000000099-1-r1")[0].startswith("there is no snapshot")


def test_a_full_disk_is_reported_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = three_snapshots(tmp_path)

    def full(_: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(restore, "sync_file_system", full)
    assert stream.parent is not None
    with pytest.raises(TransientError, match=r"the disk of .* is full"):
        stream.vault.restore(stream.parent, tmp_path / "back")
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoint", "scratch"}


def test_descriptions_that_name_their_folder_name_the_new_one(tmp_path: Path) -> None:
    stream = a_stream(tmp_path, stores=("default",))
    described = {
        "stateStoreInfo": [
            {
                "storeName": "default",
                "numPartitions": 2,
                "stateSchemaFilePaths": ["file:/old/home/state/0/_stateSchema/default/0_x"],
            }
        ]
    }
    file = tmp_path / "checkpoint/state/0/_metadata/v2/0"
    file.parent.mkdir(parents=True)
    file.write_text("v2\n" + json.dumps(described))
    shipped = stream.ship()
    stream.vault.restore(shipped.manifest, tmp_path / "back")
    text = (tmp_path / "back/state/0/_metadata/v2/0").read_text()
    restored = json.loads(text.split("\n", 1)[1])
    assert restored["stateStoreInfo"][0]["stateSchemaFilePaths"] == [
        f"file:{tmp_path}/back/state/0/_stateSchema/default/0_x"
    ]
