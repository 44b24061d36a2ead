"""A control store that a replica has opened: what it refuses for a while is waited for."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.resources.control_store.store import ControlStore
from tests.builders.control_rows import a_proposal, decide

AWAY = "ALTER TABLE epochs RENAME TO epochs_away"
BACK = "ALTER TABLE epochs_away RENAME TO epochs"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "control.db"
    with ControlStore.open(f"sqlite:///{file}") as made:
        decide(made, 1)
    return file


@pytest.fixture
def store(file: Path) -> Iterator[ControlStore]:
    with ControlStore.open(f"sqlite:///{file}", in_replica=True) as opened:
        yield opened


def change(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute(statement)


def set_read_only(store: ControlStore, *, on: bool) -> None:
    """Let the connection refuse writes with the error of a file system that is mounted read-only."""
    with store._database.engine.connect() as connection:
        connection.exec_driver_sql(f"PRAGMA query_only={on}")


def test_tables_that_are_away_may_be_back_soon(file: Path, store: ControlStore) -> None:
    change(file, AWAY)
    with pytest.raises(TransientError, match="no such table"):
        store.epochs.last("words")
    change(file, BACK)
    assert store.epochs.last("words") is not None


def test_a_file_that_is_read_only_may_be_writable_soon(store: ControlStore) -> None:
    set_read_only(store, on=True)
    with pytest.raises(TransientError, match="readonly") as refused:
        store.epochs.propose(a_proposal(1))
    assert "write" in refused.value.hint
    set_read_only(store, on=False)
    assert store.epochs.propose(a_proposal(1)).epoch == 1


def test_a_heartbeat_has_the_same_patience(file: Path, store: ControlStore) -> None:
    change(file, AWAY)
    with pytest.raises(TransientError):
        store.with_own_connection().epochs.last("words")


def test_for_a_command_it_is_an_error_that_stays(file: Path) -> None:
    with ControlStore.open(f"sqlite:///{file}") as store:
        change(file, AWAY)
        with pytest.raises(PermanentError, match="no such table"):
            store.epochs.last("words")


def test_a_value_that_no_database_takes_is_permanent(store: ControlStore) -> None:
    with pytest.raises(PermanentError, match="value"):
        store.epochs.propose(a_proposal(2**70))


def test_a_store_that_a_newer_version_has_upgraded_needs_a_newer_replica(
    file: Path, store: ControlStore
) -> None:
    change(file, "UPDATE alembic_version SET version_num = '9999'")
    assert store.epochs.last("words") is not None
    change(file, AWAY)
    with pytest.raises(PermanentError):
        store.epochs.last("words")
    with pytest.raises(PermanentError, match="newer"):
        ControlStore.open(f"sqlite:///{file}", in_replica=True)


@pytest.mark.parametrize(
    "statement", ["DROP TABLE alembic_version", "UPDATE alembic_version SET version_num = '0001'"]
)
def test_a_replica_waits_for_a_schema_that_is_being_restored(file: Path, statement: str) -> None:
    change(file, statement)
    with pytest.raises(TransientError, match="schema"):
        ControlStore.open(f"sqlite:///{file}", in_replica=True)


def test_a_replica_makes_no_store_where_a_disk_is_not_mounted(tmp_path: Path) -> None:
    with pytest.raises(TransientError):
        ControlStore.open(f"sqlite:///{tmp_path}/disk/control.db", in_replica=True)
    assert list(tmp_path.iterdir()) == []
