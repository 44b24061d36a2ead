"""Samples: series, the latest, and their pruning."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings, strategies as st

from holdfast.resources.control_store.records import Sample
from holdfast.resources.control_store.schema import sample_series, sample_values
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.control_store.tables import samples as queries
from tests.builders.control_rows import register

DAY_HEARTBEATS, NAMES = 24 * 720, 23


def count(store: ControlStore, table: sa.Table) -> int:
    rows = store._database.fetch(sa.select(sa.func.count().label("n")).select_from(table))
    return int(rows[0]["n"])


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

    def test_portions_of_several_series_are_pruned_whole(self, store: ControlStore) -> None:
        many = queries.PRUNED_AT_ONCE // 2 + 1
        for name in ("cpu", "lag", "rows"):
            self.write(store, name, *((float(at), 0.0) for at in range(1, many + 1)))
        assert store.samples.prune(float(many)) == 3 * (many - 1)
        assert {s.at for s in store.samples.latest("words").values()} == {float(many)}
        assert count(store, sample_values) == 3

    def test_the_later_value_of_one_moment_stays(self, store: ControlStore) -> None:
        self.write(store, "lag", (2.0, 20.0))
        self.write(store, "lag", (2.0, 21.0))
        assert [s.value for s in store.samples.series("words", "lag")] == [21.0]

    def test_a_series_mixes_the_replicas_in_time(self, store: ControlStore) -> None:
        for at in range(1, 9):
            sample = Sample(
                stream="words", replica=f"r{at % 3}", name="lag", value=float(at), at=float(at)
            )
            store.samples.write([sample])
        values = [s.value for s in store.samples.series("words", "lag", since_at=2.0, limit=4)]
        assert values == [5.0, 6.0, 7.0, 8.0]

    def test_series_go_with_the_last_sample_of_a_replica_that_has_ended(
        self, store: ControlStore
    ) -> None:
        register(store, "live")
        for replica in ("live", "gone", ""):
            store.samples.write(
                [Sample(stream="words", replica=replica, name="lag", value=1.0, at=1.0)]
            )
        assert store.samples.prune(1.0) == 0
        assert count(store, sample_series) == 3, "they have samples"
        assert store.samples.prune(2.0) == 3
        rows = store._database.fetch(sa.select(sample_series.c.replica))
        assert {row["replica"] for row in rows} == {"live", ""}

    def test_a_writer_whose_series_was_pruned_adds_it_again(self, store: ControlStore) -> None:
        self.write(store, "lag", (1.0, 10.0))
        store.samples.prune(2.0)
        assert count(store, sample_series) == 0
        self.write(store, "lag", (3.0, 30.0))
        self.write(store, "cpu", (3.0, 0.5))
        assert [s.value for s in store.samples.series("words", "lag")] == [30.0]

    def test_no_reader_of_one_stream_scans_all_samples(self, store: ControlStore) -> None:
        if not store._database.is_sqlite:
            pytest.skip("the planner of PostgreSQL scans small tables")
        for query in (queries._SERIES, queries._LATEST, queries._LATEST_OF_REPLICA):
            text = str(query.compile(store._database.engine))
            with store._database.engine.connect() as connection:
                plan = connection.exec_driver_sql(
                    f"EXPLAIN QUERY PLAN {text}", (0,) * text.count("?")
                )
                steps = [row[3] for row in plan]
            assert not [step for step in steps if step.startswith("SCAN")], steps


POINTS = st.lists(
    st.tuples(
        st.sampled_from(["r1", "r2", ""]),
        st.sampled_from(["cpu", "lag"]),
        st.integers(1, 12).map(float),
        st.integers(0, 99).map(float),
    ),
    max_size=30,
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(batches=st.lists(POINTS, max_size=4), since=st.integers(0, 13), limit=st.integers(1, 9))
def test_samples_are_what_a_dictionary_by_series_and_time_holds(
    tmp_path_factory: pytest.TempPathFactory,
    batches: Sequence[Sequence[tuple[str, str, float, float]]],
    since: int,
    limit: int,
) -> None:
    written: dict[tuple[str, str, float], float] = {}
    path: Path = tmp_path_factory.mktemp("samples") / "control.db"
    with ControlStore.open(f"sqlite:///{path}") as store:
        for batch in batches:
            store.samples.write(
                [
                    Sample(stream="words", replica=replica, name=name, value=value, at=at)
                    for replica, name, at, value in batch
                ]
            )
            written |= {(replica, name, at): value for replica, name, at, value in batch}
        lag = sorted((at, value) for (_, name, at), value in written.items() if name == "lag")
        series = store.samples.series("words", "lag", since_at=float(since), limit=limit)
        expected = [at for at, _ in lag if at >= since][-limit:]
        assert [sample.at for sample in series] == expected
        assert all((s.replica, "lag", s.at) in written for s in series)
        assert store.samples.prune(float(since)) == sum(at < since for _, _, at in written)
        kept = {key: value for key, value in written.items() if key[2] >= since}
        for replica in ("r1", "r2", ""):
            theirs = {
                name: at for own, name, at in sorted(kept, key=lambda key: key[2]) if own == replica
            }
            latest = store.samples.latest("words", replica=replica)
            assert {name: sample.at for name, sample in latest.items()} == theirs
            assert all(kept[replica, name, s.at] == s.value for name, s in latest.items())


def test_a_sample_takes_about_thirty_bytes(tmp_path: Path) -> None:
    """A stream writes 23 samples each 5 s, which are kept for a week."""
    path = tmp_path / "control.db"
    ControlStore.open(f"sqlite:///{path}").close()
    empty = path.stat().st_size
    with ControlStore.open(f"sqlite:///{path}") as store:
        for beat in range(DAY_HEARTBEATS // 24):
            at = 1.8e9 + beat * 5.0 + beat % 7 / 100
            store.samples.write(
                [
                    Sample(
                        stream="a_usual_name",
                        replica="a_usual_name-1a2b3c4d",
                        name=f"batch_phase{n}_seconds",
                        value=beat / (n + 7),
                        epoch=2_000_000 + beat * 5,
                        at=at,
                    )
                    for n in range(NAMES)
                ]
            )
    written = DAY_HEARTBEATS // 24 * NAMES
    assert (path.stat().st_size - empty) / written < 36
