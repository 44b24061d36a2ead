"""Samples: series, the latest, and their pruning."""

import pytest

from holdfast.resources.control_store.records import Sample
from holdfast.resources.control_store.store import ControlStore


class TestSamples:
    def write(self, store: ControlStore, name: str, *points: tuple[float, float]) -> None:
        store.samples.write(
            [
                Sample(stream="words", replica="r1", name=name, value=value, at=at)
                for at, value in points
            ]
        )

    def test_a_series_is_oldest_first_and_keeps_the_newest(self, store: ControlStore) -> None:
        self.write(store, "lag", (3.0, 30.0), (1.0, 10.0), (2.0, 20.0))
        self.write(store, "rows", (9.0, 1.0))
        assert [s.value for s in store.samples.series("words", "lag")] == [10.0, 20.0, 30.0]
        assert [s.at for s in store.samples.series("words", "lag", since_at=2.0)] == [2.0, 3.0]
        assert [s.at for s in store.samples.series("words", "lag", limit=1)] == [3.0]

    def test_latest_is_the_newest_of_each_name(self, store: ControlStore) -> None:
        assert store.samples.latest("words") == {}
        self.write(store, "lag", (2.0, 20.0), (1.0, 10.0), (2.0, 21.0))
        self.write(store, "cpu", (1.0, 0.5))
        self.write(store, "rows", (5.0, 7.0))
        store.samples.write([Sample(stream="others", replica="r", name="lag", value=9.0)])
        latest = store.samples.latest("words")
        assert {name: s.value for name, s in latest.items()} == {
            "cpu": 0.5,
            "lag": 21.0,
            "rows": 7.0,
        }

    def test_latest_of_a_replica_is_not_hidden_by_a_newer_one_of_another(
        self, store: ControlStore
    ) -> None:
        self.write(store, "lag", (1.0, 10.0), (2.0, 20.0))
        other = Sample(stream="words", replica="r2", name="lag", value=30.0, at=3.0)
        store.samples.write([other])
        assert store.samples.latest("words", replica="r1")["lag"].value == 20.0
        assert store.samples.latest("words", replica="r2") == {"lag": other}
        assert store.samples.latest("words", replica="r3") == {}

    def test_a_sample_without_a_time_is_of_now(self, store: ControlStore) -> None:
        store.samples.write([])
        store.samples.write([Sample(stream="words", replica="r", name="lag", value=1.0, epoch=3)])
        [sample] = store.samples.series("words", "lag")
        assert sample.at == pytest.approx(store.now(), abs=30)
        assert sample.epoch == 3

    def test_pruning_says_how_many_went(self, store: ControlStore) -> None:
        self.write(store, "lag", *((float(at), 0.0) for at in range(1, 6001)))
        assert store.samples.prune(5901.0) == 5900
        assert store.samples.prune(5901.0) == 0
        assert len(store.samples.series("words", "lag")) == 100
