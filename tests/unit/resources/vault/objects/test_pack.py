import errno
from pathlib import Path
from typing import BinaryIO

import pytest

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.resources.vault.checkpoint.files import CutFile
from holdfast.resources.vault.objects import pack
from holdfast.resources.vault.objects.pack import OutdatedCutError
from tests.builders.checkpoints import StateKind
from tests.builders.vaults import a_stream, tree


@pytest.mark.parametrize("kind", list(StateKind))
def test_a_snapshot_restores_as_it_was_shipped(tmp_path: Path, kind: StateKind) -> None:
    stream = a_stream(tmp_path, kind=kind, partitions=3)
    shipped = [stream.ship() for _ in range(7)][-1]
    restored = stream.vault.restore(stream.vault.manifest(shipped.manifest.id), tmp_path / "back")
    assert tree(tmp_path / "back") == stream.contents[shipped.manifest.id]
    assert restored.files == len(shipped.manifest.files)
    assert restored.bytes == shipped.manifest.state_bytes


def test_a_snapshot_is_two_puts_the_manifest_last(tmp_path: Path) -> None:
    stream = a_stream(tmp_path)
    stream.ship()
    stream.store.calls.clear()
    shipped = stream.ship()
    first, last = stream.store.calls
    assert first.startswith("put words/packs/000000000001-1-r1.")
    assert last == "put words/manifests/000000000001-1-r1.json.gz"
    assert shipped.requests == 2


def test_only_what_is_new_is_sent(tmp_path: Path) -> None:
    stream = a_stream(tmp_path, snapshot_every=1000, delta_bytes=10_000)
    first = stream.ship(20)
    second = stream.ship()
    assert second.new_bytes < first.new_bytes / 10
    assert second.pack_bytes == second.new_bytes
    assert second.manifest.parent == first.manifest.id


def test_a_pack_that_is_mostly_dead_is_written_again(tmp_path: Path) -> None:
    stream = a_stream(tmp_path, snapshot_every=4, delta_bytes=1000, snapshot_bytes=2000)
    first = stream.ship(3)
    second = stream.ship(3)
    assert not first.manifest.packs.keys() & second.manifest.packs.keys()
    assert second.pack_bytes > second.new_bytes
    assert not any(call.startswith("get") for call in stream.store.calls)


def test_the_same_epoch_is_not_shipped_twice(tmp_path: Path) -> None:
    stream = a_stream(tmp_path)
    first = stream.ship()
    again = stream.ship(0)
    assert again.manifest is first.manifest
    assert again.requests == 0


def test_a_large_snapshot_is_split_into_packs(tmp_path: Path) -> None:
    stream = a_stream(tmp_path, partitions=10, delta_bytes=1000)
    stream.pack_limit_bytes = 4000
    shipped = stream.ship(3)
    assert len(shipped.manifest.packs) > 3
    assert all(size <= 4000 for size in shipped.manifest.packs.values())
    assert shipped.requests == stream.store.requests
    stream.vault.restore(shipped.manifest, tmp_path / "back")
    assert tree(tmp_path / "back") == stream.contents[shipped.manifest.id]


def test_a_failed_put_leaves_no_snapshot_and_no_scratch(tmp_path: Path) -> None:
    stream = a_stream(tmp_path)
    stream.store.fail_next(TransientError("away"))
    with pytest.raises(TransientError, match="away"):
        stream.ship()
    assert stream.vault.list() == []
    assert list((tmp_path / "scratch").iterdir()) == []
    stream.ship()
    assert len(stream.vault.list()) == 1


def test_a_retry_after_a_lost_answer_damages_nothing(tmp_path: Path) -> None:
    stream = a_stream(tmp_path)
    first = stream.ship(3)
    stream.parent = None
    (tmp_path / "checkpoint/state/0/0/3.snapshot").write_bytes(b"came from maintenance")
    again = stream.ship(0)
    assert not first.manifest.packs.keys() & again.manifest.packs.keys()
    assert stream.vault.verify(first.manifest.id) == []


def test_a_parent_of_another_stream_or_a_later_epoch_is_refused(tmp_path: Path) -> None:
    ahead = a_stream(tmp_path / "ahead")
    behind = a_stream(tmp_path / "behind")
    behind.parent = ahead.ship(5).manifest
    with pytest.raises(PermanentError, match="cannot build on"):
        behind.ship()


def test_a_cut_is_made_again_if_spark_removed_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = a_stream(tmp_path)
    copy = pack._copy
    failed: list[Path] = []

    def copy_late(source: Path, size_bytes: int, out: BinaryIO) -> bytes:
        if source.name == "1.delta" and not failed:
            failed.append(source)
            raise OutdatedCutError(str(source))
        return copy(source, size_bytes, out)

    monkeypatch.setattr(pack, "_copy", copy_late)
    shipped = stream.ship()
    assert failed
    assert stream.vault.verify(shipped.manifest.id) == []


def test_a_checkpoint_that_keeps_changing_is_left_for_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def vanish(source: Path, size_bytes: int, out: BinaryIO) -> bytes:
        raise OutdatedCutError(f"{source} was removed")

    monkeypatch.setattr(pack, "_copy", vanish)
    with pytest.raises(TransientError, match="changes faster"):
        a_stream(tmp_path).ship()


def test_a_full_disk_is_reported_and_cleaned_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: Path, size_bytes: int, out: BinaryIO) -> bytes:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pack, "_copy", full)
    with pytest.raises(TransientError, match=r"the disk of .* is full") as raised:
        a_stream(tmp_path).ship()
    assert "free space" in raised.value.hint
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_file_that_is_not_as_long_as_the_cut_said_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    with pytest.raises(OutdatedCutError, match="5 bytes, not 4"):
        pack.pack(tmp_path, [CutFile("a", 4)], tmp_path, stem="s", limit_bytes=10)
