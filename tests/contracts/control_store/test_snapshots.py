"""The catalogue of snapshots."""

import pytest

from holdfast.resources.control_store.records import SnapshotState
from holdfast.resources.control_store.store import ControlStore
from tests.builders.control_rows import a_snapshot


class TestSnapshots:
    def test_the_newest_available_snapshot_is_offered(self, store: ControlStore) -> None:
        assert store.snapshots.newest("words") is None
        for epoch in (10, 30, 20):
            store.snapshots.record(a_snapshot(f"s{epoch}", epoch))
        store.snapshots.mark("words", "s30", SnapshotState.DAMAGED, "digest differs")
        newest = store.snapshots.newest("words")
        assert newest is not None
        assert newest.id == "s20"
        assert newest.created_at == pytest.approx(store.now(), abs=30)
        assert [row.id for row in store.snapshots.of("words")] == ["s20", "s10"]
        everything = store.snapshots.of("words", available_only=False)
        assert [row.id for row in everything] == ["s30", "s20", "s10"]
        assert (everything[0].state, everything[0].reason) == (
            SnapshotState.DAMAGED,
            "digest differs",
        )

    def test_recording_again_updates_and_keeps_the_times(self, store: ControlStore) -> None:
        store.snapshots.record(a_snapshot("s", 1))
        store.snapshots.record_verification("words", "s")
        [first] = store.snapshots.of("words")
        store.snapshots.record(a_snapshot("s", 1, total_bytes=99, parent="p"))
        [second] = store.snapshots.of("words")
        assert (second.total_bytes, second.parent) == (99, "p")
        assert first.verified_at is not None
        assert (second.created_at, second.verified_at) == (first.created_at, first.verified_at)

    def test_one_row_can_be_looked_up_and_taken_out(self, store: ControlStore) -> None:
        store.snapshots.record(a_snapshot("s1", 1))
        store.snapshots.record(a_snapshot("s2", 2))
        snapshot = store.snapshots.get("words", "s1")
        assert snapshot is not None
        assert snapshot.epoch == 1
        store.snapshots.forget("words", "s1")
        assert store.snapshots.get("words", "s1") is None
        assert [row.id for row in store.snapshots.of("words")] == ["s2"]
