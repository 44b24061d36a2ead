"""Running replicas heed the intervals that the controller wants, and otherwise the declared ones."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.ft_policies.errors import TransientError
from holdfast.resources.control_store.records import Intervals
from holdfast.resources.control_store.store import ControlStore
from holdfast.streaming.state.shipper import READ_SECONDS, IntervalOverrides
from tests.builders.vaults import a_shipper
from tests.fakes.clocks import SteppedClock


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ControlStore]:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as opened:
        opened.streams.declare("words", {}, "deployed")
        yield opened


def test_snapshots_are_shipped_as_declared_until_the_controller_overrides_it(
    tmp_path: Path, store: ControlStore
) -> None:
    shipping = a_shipper(tmp_path, store, every="10s")
    assert shipping.after(9.0) == 0
    assert shipping.after(1.0) == 1
    store.streams.set_intervals("words", snapshot_every=4.0, sync_every=None)
    assert shipping.after(4.0) == 2
    store.streams.set_intervals("words", snapshot_every=30.0, sync_every=None)
    assert shipping.after(29.0) == 2
    assert shipping.after(1.0) == 3
    store.streams.set_intervals("words", snapshot_every=None, sync_every=None)
    assert shipping.after(9.0) == 3
    assert shipping.after(1.0) == 4


def test_the_other_limits_of_a_checkpoint_policy_stay(tmp_path: Path, store: ControlStore) -> None:
    shipping = a_shipper(tmp_path, store, every="10s", epochs=2)
    store.streams.set_intervals("words", snapshot_every=100.0, sync_every=None)
    assert [shipping.after(1.0) for _ in range(4)] == [0, 1, 1, 2]


class CountedStreams:
    """What the replicas read, counted, and away when a test says so."""

    def __init__(self) -> None:
        self.reads = 0
        self.away = False
        self.overrides = Intervals(snapshot_every=7.0)

    def intervals(self, _stream: str) -> Intervals:
        self.reads += 1
        if self.away:
            raise TransientError("the control store is away")
        return self.overrides


class CountedStore:
    def __init__(self) -> None:
        self.streams = CountedStreams()


def test_they_are_read_once_in_a_while_and_a_store_that_is_away_changes_nothing() -> None:
    store, clock = CountedStore(), SteppedClock()
    overrides = IntervalOverrides(store, "words", clock)  # type: ignore[arg-type]
    for _ in range(10):
        assert overrides.now() == Intervals(snapshot_every=7.0)
    assert store.streams.reads == 1
    store.streams.away = True
    clock.step(READ_SECONDS)
    assert [overrides.now() for _ in range(3)] == [Intervals(snapshot_every=7.0)] * 3
    assert store.streams.reads == 2
    store.streams.away, store.streams.overrides = False, Intervals()
    clock.step(READ_SECONDS)
    assert overrides.now() == Intervals()
