"""A store that is locked, gone or misnamed: the error is transient or permanent, and has a hint."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from holdfast.ft_policies.errors import TransientError
from holdfast.resources.control_store.store import ControlStore
from tests.builders.control_rows import a_proposal, decide
from tests.live.postgres import cut_connections, fresh_database, set_read_only

pytestmark = pytest.mark.integration

HOLD_THE_LOCK = """
import select, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
select.select([sys.stdin], [], [], float(sys.argv[2]))
connection.execute("ROLLBACK")
"""


@contextmanager
def locked_by_another_process(file: Path, *, seconds: float) -> Iterator[None]:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD_THE_LOCK, str(file), str(seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        yield
        holder.communicate("done\n", timeout=30)


def test_a_write_waits_for_a_lock_that_is_short(tmp_path: Path) -> None:
    file = tmp_path / "control.db"
    with (
        ControlStore.open(f"sqlite:///{file}") as store,
        locked_by_another_process(file, seconds=0.4),
    ):
        before = store.now()
        assert store.epochs.propose(a_proposal(0)).proposer == "r1"
        assert store.now() - before > 0.1


def test_a_lock_that_is_long_is_transient_and_does_not_stop_readers(tmp_path: Path) -> None:
    file = tmp_path / "control.db"
    with ControlStore.open(f"sqlite:///{file}?timeout=0.2") as store:
        decide(store, 1)
        with locked_by_another_process(file, seconds=60.0):
            with pytest.raises(TransientError, match="locked") as refused:
                store.epochs.propose(a_proposal(1))
            assert "write lock" in refused.value.hint
            last = store.epochs.last("words")
            assert last is not None
            assert last.epoch == 0
            with pytest.raises(TransientError, match="locked"), store._database.write():
                pytest.fail("the lock is another's")
        assert store.epochs.propose(a_proposal(1)).epoch == 1


def test_a_postgresql_that_is_not_there_is_transient() -> None:
    with pytest.raises(TransientError) as refused:
        # pragma: allowlist nextline secret
        ControlStore.open("postgresql://user:secret@127.0.0.1:1/control")
    assert "reachable" in refused.value.hint
    assert "secret" not in str(refused.value)


def test_a_database_that_does_not_exist_may_be_back_soon() -> None:
    with fresh_database() as url, pytest.raises(TransientError, match="does not exist") as refused:
        ControlStore.open(url.replace("/holdfast_", "/no_"))
    assert "URL" in refused.value.hint


def test_after_a_restart_of_postgresql_the_next_try_works() -> None:
    with fresh_database() as url, ControlStore.open(url) as store:
        decide(store, 1)
        cut_connections(url)
        with pytest.raises(TransientError):
            store.epochs.propose(a_proposal(1))
        assert store.epochs.propose(a_proposal(1)).epoch == 1


def write_as_on_a_standby(store: ControlStore) -> None:
    with store._database.write() as connection:
        connection.exec_driver_sql("SET TRANSACTION READ ONLY")
        connection.execute(sa.text("UPDATE epochs SET rows = 0"))


def test_a_server_that_is_read_only_for_a_moment_is_transient() -> None:
    with fresh_database() as url, ControlStore.open(url) as store:
        decide(store, 1)
        with pytest.raises(TransientError, match="read-only") as refused:
            write_as_on_a_standby(store)
        assert "failover" in refused.value.hint
        assert store.epochs.propose(a_proposal(1)).epoch == 1


def test_connections_go_to_no_server_that_is_read_only() -> None:
    with fresh_database() as url, ControlStore.open(url) as store:
        decide(store, 1)
        set_read_only(url, on=True)
        cut_connections(url)
        for _ in range(2):  # the connection that was cut, then a new one
            with pytest.raises(TransientError):
                store.epochs.propose(a_proposal(1))
        set_read_only(url, on=False)
        assert store.epochs.propose(a_proposal(1)).epoch == 1


def test_a_thread_without_a_connection_waits_for_its_turn() -> None:
    with fresh_database() as url, ControlStore.open(url) as store:
        with ThreadPoolExecutor(1) as pool, store._database.write(), store._database.write():
            deciding = pool.submit(store.epochs.propose, a_proposal(0))
            assert not wait([deciding], timeout=0.2).done
        assert deciding.result(10.0).epoch == 0


def test_a_row_held_by_a_stopped_process_is_transient() -> None:
    with fresh_database() as url, ControlStore.open(url) as other:
        lease = other.leases.take("words", "a", 60.0)
        assert lease is not None
        impatient = f"{url}&options=-c%20lock_timeout%3D200"
        with ControlStore.open(impatient) as store, other._database.write() as connection:
            connection.execute(sa.text("UPDATE leases SET holder = 'a'"))
            with pytest.raises(TransientError, match="lock timeout") as refused:
                store.leases.renew(lease, 60.0)
            assert "another process" in refused.value.hint
        assert other.leases.renew(lease, 60.0) is not None


@pytest.mark.parametrize(
    ("away", "back"),
    [
        ("ALTER TABLE epochs RENAME TO away", "ALTER TABLE away RENAME TO epochs"),
        ("ALTER SCHEMA public RENAME TO away", "ALTER SCHEMA away RENAME TO public"),
    ],
)
def test_a_schema_that_is_restored_is_waited_for_by_a_replica(away: str, back: str) -> None:
    with fresh_database() as url:
        with ControlStore.open(url) as store:
            decide(store, 1)
        with ControlStore.open(url, in_replica=True) as store:
            run_beside(url, away)
            with pytest.raises(TransientError, match="does not exist"):
                store.epochs.propose(a_proposal(1))
            run_beside(url, back)
            assert store.epochs.propose(a_proposal(1)).epoch == 1


FAIL = """
CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'the server fails' USING ERRCODE = '{state}'; END $$;
CREATE TRIGGER fail BEFORE INSERT ON epochs EXECUTE FUNCTION fail();
"""


@pytest.mark.parametrize("in_replica", [True, False])
@pytest.mark.parametrize(
    "state",
    [
        pytest.param("28000", id="roles are being restored"),
        pytest.param("28P01", id="a password is being changed"),
        pytest.param("53100", id="the disk of the server is full"),
        pytest.param("53200", id="the server has no memory"),
        pytest.param("53300", id="the server has no connection"),
        pytest.param("58000", id="the system of the server fails"),
        pytest.param("58030", id="the disk of the server fails"),
    ],
)
def test_what_a_server_cannot_do_now_may_work_soon(state: str, *, in_replica: bool) -> None:
    with fresh_database() as url:
        with ControlStore.open(url) as store:
            decide(store, 1)
        with ControlStore.open(url, in_replica=in_replica) as store:
            assert store.epochs.last("words") is not None
            run_beside(url, FAIL.format(state=state))
            with pytest.raises(TransientError, match="the server fails"):
                store.epochs.propose(a_proposal(1))
            run_beside(url, "DROP TRIGGER fail ON epochs")
            assert store.epochs.propose(a_proposal(1)).epoch == 1


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("lock_timeout", "5s"),
        ("statement_timeout", "30s"),
        ("idle_in_transaction_session_timeout", "15s"),
    ],
)
def test_the_server_ends_what_takes_too_long(setting: str, value: str) -> None:
    with fresh_database() as url, ControlStore.open(url) as store:
        for opened in (store, store.with_own_connection()):
            with opened._database.engine.connect() as connection:
                assert connection.scalar(sa.text(f"SHOW {setting}")) == value


def test_a_server_that_is_gone_without_a_word_is_noticed_within_seconds() -> None:
    """Of a connection by TCP; libpq leaves these out for a socket of the file system."""
    expected = {
        "connect_timeout": "5",
        "tcp_user_timeout": "10000",
        "keepalives_idle": "5",
        "keepalives_interval": "2",
        "keepalives_count": "3",
    }
    with fresh_database() as url, ControlStore.open(url) as store:
        for opened in (store, store.with_own_connection()):
            with opened._database.engine.connect() as connection:
                session = connection.connection.driver_connection
                assert isinstance(session, psycopg.Connection)
                parameters = session.info.get_parameters()
                assert {name: parameters.get(name) for name in expected} == expected
                assert parameters.get("keepalives", "1") == "1"


def run_beside(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)
