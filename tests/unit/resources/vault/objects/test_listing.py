"""Snapshots of a stream that was restored: what an older history has beyond its end does not count."""

from pathlib import Path

import pytest

from holdfast.ft_policies.snapshots import RetentionPolicy
from holdfast.resources.vault.objects.manifest import SnapshotName, UnusableSnapshotError
from holdfast.resources.vault.prune import SUPERSEDED_SECONDS
from holdfast.resources.vault.vault import SnapshotVault
from tests.builders.vaults import ShippedStream, a_stream, tree


def shipped(folder: Path, *, ships: int = 4) -> ShippedStream:
    """Snapshots after the epochs 1, 3, 5 and 7."""
    stream = a_stream(folder)
    for _ in range(ships):
        stream.ship(2)
    return stream


def epochs(stream: ShippedStream) -> list[int]:
    return [record.epoch for record in stream.vault.list()]


def test_the_name_of_a_snapshot_tells_its_history() -> None:
    assert SnapshotName(12, 3, "r1").id == "000000000012-3-r1"
    later = SnapshotName(12, 3, "r1", history=2)
    assert later.id == "000000000012-3.2-r1"
    assert SnapshotName.parse(later.id) == later
    assert SnapshotName.parse("000000000012-3-r1").history == 0


def test_a_mark_beside_the_manifests_costs_no_request_more(tmp_path: Path) -> None:
    stream = shipped(tmp_path)
    stream.vault.mark(1, after_epoch=3)
    stream.store.calls.clear()
    assert epochs(stream) == [3, 1]
    assert stream.store.calls == ["list words/manifests/"]


def test_the_newest_that_counts_is_restored(tmp_path: Path) -> None:
    stream = shipped(tmp_path)
    stream.vault.mark(1, after_epoch=4)
    newest = stream.vault.restore_newest(tmp_path / "restored")
    assert newest is not None
    assert (newest.manifest.epoch, newest.refused) == (3, [])
    assert tree(tmp_path / "restored") == stream.contents[newest.manifest.id]


def test_a_zombie_that_ships_later_is_passed_over(tmp_path: Path) -> None:
    stream = shipped(tmp_path, ships=2)
    stream.vault.mark(1, after_epoch=3)
    zombie = stream.ship(2, token=9)
    assert epochs(stream) == [3, 1]
    assert [snapshot.id for snapshot in stream.vault.listing().superseded] == [zombie.manifest.id]


def test_a_replica_that_was_rolled_back_has_shipped_nothing_that_counts(tmp_path: Path) -> None:
    stream = shipped(tmp_path, ships=2)
    stream.replica = "r-2"
    shipped_ids = {stream.ship(2).manifest.id for _ in range(2)}
    vault = SnapshotVault(stream.store, "words", rolled_back=lambda: {"r-2": 7.0})
    assert [snapshot.epoch for snapshot in vault.list()] == [3, 1]
    listing = vault.listing()
    assert {snapshot.id for snapshot in listing.superseded} == shipped_ids
    endings = {listing.find_superseding(snapshot) for snapshot in listing.superseded}
    assert [(mark.cause, mark.marked_at) for mark in endings] == [("by a rollback", 7.0)]
    newest = vault.restore_newest(tmp_path / "restored")
    assert newest is not None
    assert newest.manifest.epoch == 3


def test_the_new_history_ships_its_own(tmp_path: Path) -> None:
    stream = shipped(tmp_path)
    stream.vault.mark(1, after_epoch=3)
    manifest = stream.vault.manifest(stream.vault.list()[0].id)
    stream.vault.restore(manifest, tmp_path / "again")
    stream.checkpoint.root, stream.checkpoint.epoch = tmp_path / "again", 3
    stream.parent = manifest
    new = stream.ship(2, token=5, history=1)
    assert (new.manifest.history, new.manifest.epoch) == (1, 5)
    assert stream.vault.list()[0].id == new.manifest.id
    assert stream.vault.manifest(new.manifest.id).history == 1
    assert stream.vault.verify(new.manifest.id) == []


def test_the_last_of_several_restores_counts(tmp_path: Path) -> None:
    stream = shipped(tmp_path)
    stream.vault.mark(1, after_epoch=5)
    stream.vault.mark(2, after_epoch=1)
    assert epochs(stream) == [1]


def test_what_is_superseded_is_kept_for_a_while_and_counts_for_nothing(tmp_path: Path) -> None:
    stream = shipped(tmp_path)
    stream.vault.mark(1, after_epoch=3)
    policy = RetentionPolicy(last=2)
    stream.store.now += 7200
    early = stream.vault.prune(policy)
    assert early.dropped == []
    assert [verdict.reasons for verdict in early.verdicts if verdict.snapshot.epoch > 3] == [
        ("superseded by a restore",),
        ("superseded by a restore",),
    ]
    stream.store.now += SUPERSEDED_SECONDS
    late = stream.vault.prune(policy)
    assert [SnapshotName.parse(name).epoch for name in late.dropped] == [7, 5]
    assert all(stream.vault.verify(snapshot.id) == [] for snapshot in stream.vault.list())


def test_a_snapshot_is_adopted_by_another_stream_and_the_original_stays(tmp_path: Path) -> None:
    stream = shipped(tmp_path, ships=2)
    before = dict(stream.store.objects)
    fork = SnapshotVault(stream.store, "trial")
    manifest = stream.vault.manifest(stream.vault.list()[0].id)
    copy = fork.adopt(manifest, stream.vault)
    assert (copy.stream, copy.epoch, copy.parent, copy.history) == ("trial", 3, None, 0)
    fork.restore(fork.manifest(copy.id), tmp_path / "fork")
    assert tree(tmp_path / "fork") == stream.contents[manifest.id]
    kept = {key: body for key, body in stream.store.objects.items() if key.startswith("words/")}
    assert kept == before


def test_a_damaged_snapshot_is_not_adopted(tmp_path: Path) -> None:
    stream = shipped(tmp_path, ships=1)
    manifest = stream.vault.manifest(stream.vault.list()[0].id)
    stream.store.damage(stream.pack_of(manifest, "metadata"))
    fork = SnapshotVault(stream.store, "trial")
    with pytest.raises(UnusableSnapshotError, match="the copy of snapshot"):
        fork.adopt(manifest, stream.vault)
    assert fork.list() == []
