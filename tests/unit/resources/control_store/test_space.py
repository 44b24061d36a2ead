"""A SQLite file gives back the space of what was deleted."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.resources.control_store.database import Database
from holdfast.resources.control_store.records import Sample
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.control_store.tables import retention
from tests.contracts.control_store.test_schema import go_back_to_first_schema
from tests.fakes.clocks import SteppedClock

SAMPLES = 20_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "control.db"


def write_samples(store: ControlStore) -> None:
    store.samples.write(
        [
            Sample(stream="words", replica="r1", name="lag", value=at / 7, at=float(at))
            for at in range(1, SAMPLES + 1)
        ]
    )


def test_pruned_space_is_given_back_in_portions(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "FREE_PAGES", 10)
    monkeypatch.setattr(retention, "PORTION", 25)
    with ControlStore.open(f"sqlite:///{file}") as store:
        write_samples(store)
    full = file.stat().st_size
    with ControlStore(Database(f"sqlite:///{file}", SteppedClock())) as store:
        store.samples.prune(SAMPLES + 1.0)
        released = store.retention.release_space()
        assert store.retention.release_space() == 0
    assert released > 50
    assert file.stat().st_size == full - released * 4096


def test_free_pages_that_are_soon_filled_again_stay(file: Path) -> None:
    with ControlStore.open(f"sqlite:///{file}") as store:
        write_samples(store)
        store.samples.prune(SAMPLES + 1.0)
        assert store.retention.release_space() == 0


def test_the_file_of_an_older_version_is_written_again_when_it_is_upgraded(file: Path) -> None:
    with ControlStore.open(f"sqlite:///{file}") as store:
        go_back_to_first_schema(store._database)
    with closing(sqlite3.connect(file)) as old:
        old.execute("PRAGMA auto_vacuum=0")
        old.execute("VACUUM")
        old.executemany(
            "INSERT INTO samples (stream, replica, name, value, at) VALUES ('words', 'r1', ?, 1, ?)",
            ((f"a_long_name_{at % 9}", float(at)) for at in range(SAMPLES)),
        )
        old.commit()
    full = file.stat().st_size
    with ControlStore.open(f"sqlite:///{file}") as store:
        assert len(store.samples.latest("words")) == 9
    assert file.stat().st_size < full / 3
    with closing(sqlite3.connect(file)) as new:
        assert new.execute("PRAGMA auto_vacuum").fetchone() == (2,)


def test_a_file_that_cannot_be_written_again_is_upgraded_all_the_same(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ControlStore.open(f"sqlite:///{file}?timeout=0.1") as store:
        row = store.streams.declare("words", {}, "deployed")
        go_back_to_first_schema(store._database)
    with closing(sqlite3.connect(file)) as old:
        old.execute("PRAGMA auto_vacuum=0")
        old.execute("VACUUM")
        old.execute("BEGIN")
        old.execute("SELECT * FROM streams").fetchall()  # a reader, which VACUUM does not wait for
        with ControlStore.open(f"sqlite:///{file}?timeout=0.1") as store:
            assert store.streams.all() == [row]
            assert store.retention.release_space() == 0
