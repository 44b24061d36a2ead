"""The thread that ships snapshots: what it says when it fails, and how it ends."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.resources.control_store.records import SnapshotState
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.vault.objects.intents import LostPacksError
from tests.builders.vaults import ShipperSetup, a_shipper
from tests.fakes.clocks import RunningClock
from tests.waiting import wait_until

AWAY = TransientError("the object store is away", hint="wait")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ControlStore]:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as opened:
        opened.streams.declare("words", {}, "deployed")
        yield opened


@pytest.fixture
def shipping(tmp_path: Path, store: ControlStore) -> ShipperSetup:
    return a_shipper(tmp_path, store, every="10s")


def shipped(store: ControlStore) -> list[int]:
    return [row.epoch for row in store.snapshots.of("words")]


def test_a_failure_is_tried_again_and_tells_how_old_the_last_snapshot_is(
    shipping: ShipperSetup, store: ControlStore, caplog: pytest.LogCaptureFixture
) -> None:
    shipping.stream.checkpoint.commit(3)
    shipping.clock.step(12.0)
    shipping.stream.store.fail_next(AWAY)
    shipping.shipper.start()
    wait_until(lambda: shipped(store) == [2])
    shipping.shipper.finish()
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "snapshot not shipped: the object store is away (wait)",
        "the last snapshot is 12 s old",
    ]


def test_state_that_was_cut_is_not_shipped_and_older_snapshots_stay_the_newest(
    shipping: ShipperSetup, store: ControlStore
) -> None:
    assert shipping.after(12.0) == 1
    delta = shipping.stream.checkpoint.root / "state/0/1/2.delta"
    shipping.stream.checkpoint.commit()
    delta.write_bytes(delta.read_bytes()[:-1])
    with pytest.raises(PermanentError, match="is damaged: no block begins") as refused:
        shipping.after(12.0)
    assert "older snapshots are not affected" in refused.value.hint
    assert shipped(store) == [0]
    shipping.stream.checkpoint.commit()
    assert shipping.after(12.0) == 2, "the query has written a whole from its memory"
    assert shipped(store) == [4, 0]


def test_at_the_end_what_is_left_is_shipped(shipping: ShipperSetup, store: ControlStore) -> None:
    shipping.shipper.start()
    shipping.stream.checkpoint.commit(2)
    shipping.shipper.finish()
    assert not shipping.shipper.is_alive()
    assert shipped(store) == [1]


def test_an_object_store_that_is_away_does_not_hold_the_end_back(
    shipping: ShipperSetup, store: ControlStore, caplog: pytest.LogCaptureFixture
) -> None:
    shipping.shipper.start()
    shipping.stream.checkpoint.commit()
    shipping.stream.store.fail_next(AWAY)
    shipping.shipper.finish()
    assert shipped(store) == []
    assert "the last snapshot was not shipped" in caplog.text


def test_on_a_snapshot_that_was_found_damaged_nothing_is_built(
    shipping: ShipperSetup, store: ControlStore
) -> None:
    assert shipping.after(12.0) == 1
    first = store.snapshots.of("words")[0]
    assert shipping.after(12.0) == 2
    assert shipping.stream.vault.manifest(store.snapshots.of("words")[0].id).parent == first.id
    store.snapshots.mark("words", store.snapshots.of("words")[0].id, SnapshotState.DAMAGED, "lost")
    shipping.after(12.0)
    whole = shipping.stream.vault.manifest(store.snapshots.of("words")[0].id)
    assert (whole.epoch, whole.parent, len(whole.packs)) == (2, None, 1)


def test_after_lost_packs_the_next_snapshot_is_complete_by_itself(
    tmp_path: Path, store: ControlStore
) -> None:
    long = RunningClock(step_seconds=1000.0)
    shipping = a_shipper(tmp_path, store, upload=long, every="10s")
    assert shipping.after(12.0) == 1
    objects = shipping.stream.store
    objects.delete([stored.key for stored in objects.list("words/packs/")])
    with pytest.raises(LostPacksError, match="taken back"):
        shipping.after(12.0)
    assert shipping.after(12.0) == 2
    newest = store.snapshots.newest("words")
    assert newest is not None
    assert newest.parent is None
    assert shipping.stream.vault.verify(newest.id) == []
