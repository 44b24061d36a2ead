"""One database, SQLite or PostgreSQL: its transactions, its clock, its column types, its errors.

SQLite: the driver is in autocommit mode and this module sends BEGIN itself, so a read takes no lock and a
write takes the write lock at once (BEGIN IMMEDIATE): a transaction that reads and then writes waits
for its turn and never fails half-way. Commits are synchronous=FULL, because with WAL's usual NORMAL
a power cut may undo the last ones, and a decided epoch whose output is out must stay decided. Only
heartbeats and samples (`durable=False`) go without: the next durable commit takes them along.
PostgreSQL: a single statement is its own transaction, one round trip.

All processes of a stream compare leases by one clock, the database's (`store_now`), so hosts whose own
clocks are minutes apart still agree on which lease has expired.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import psycopg
import sqlalchemy as sa
import sqlalchemy.exc as sa_exc
from sqlalchemy import event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.base import Executable
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from holdfast.configs.places import find_network_file_system
from holdfast.ft_policies.errors import HoldfastError, PermanentError, TransientError
from holdfast.ft_policies.tiers import Switches
from holdfast.resources.clock import SYSTEM_CLOCK, Clock

BUSY_SECONDS = 5.0
"""How long to wait for a lock; `?timeout=` in a SQLite URL overrides it."""
CONNECTIONS = 2
"""The connections of one process to PostgreSQL: its threads take turns."""
TURN_SECONDS = 60.0
"""How long a thread waits for its turn: longer than any statement may take."""

WAL_BYTES = 16 * 1024**2
"""A write-ahead log that one large transaction has made longer is cut to this once it is empty."""

PAUSE_SECONDS = 0.15
"""How long a long write leaves SQLite's lock to others: a process that waits for it asks at least every 0.1 s."""

HOST_TIME = "host_time"
"""The clock of a SQLite database is its host's, in microseconds (SQLite's own tells milliseconds)."""

_SYNCHRONOUS = "holdfast_synchronous"
_POSTGRESQL_QUERY = {
    "connect_timeout": "5",
    "tcp_user_timeout": "10000",
    # a reply that never comes is noticed after about ten seconds, not after two hours
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "target_session_attrs": "read-write",  # of several hosts the primary server, not a standby
    "application_name": "holdfast",
    # a process stopped inside a transaction must not hold the others up for ever
    "options": "-c lock_timeout=5000 -c statement_timeout=30000 "
    "-c idle_in_transaction_session_timeout=15000",
}


Record = TypeVar("Record")


class BusyError(TransientError):
    """Another process held the write lock of a SQLite file for too long."""


class RefusedError(PermanentError):
    """The database refuses to be opened, or what it is asked to do."""


class Database:
    """An engine that raises errors of Holdfast and makes each write one transaction."""

    def __init__(
        self, url: str, clock: Clock = SYSTEM_CLOCK, *, connections: int = CONNECTIONS
    ) -> None:
        self._clock = clock
        self._next_portion_at = clock.monotonic()
        self.address = _parse_url(url)
        self.is_sqlite = self.address.get_backend_name() == "sqlite"
        self.on_busy: Callable[[], str] = lambda: ""
        """Called after a write has waited in vain for the lock of a SQLite file; returns who holds it."""
        self.refuses_for_good: Callable[[], bool] = lambda: True
        """Called after the database has refused something; if it returns false, the error is transient."""
        self._reads: sa.Engine
        self._writes: sa.Engine
        if self.is_sqlite:
            self.engine = _sqlite_engine(self.address)
            self._reads = self.engine
            self._writes = self._singles = self.engine.execution_options(**{_SYNCHRONOUS: "FULL"})
            self._quick = self.engine.execution_options(**{_SYNCHRONOUS: "NORMAL"})
        else:
            self.engine = _postgresql_engine(self.address, connections)
            self._writes = self.engine
            single = self.engine.execution_options(isolation_level="AUTOCOMMIT")
            self._reads = self._singles = self._quick = single

    def __str__(self) -> str:
        return f"the control store {self.address.render_as_string(hide_password=True)}"

    def insert(self, table: sa.Table) -> postgresql.Insert:
        """An INSERT of this engine's dialect, for ON CONFLICT; the two read alike."""
        if self.is_sqlite:
            return cast("postgresql.Insert", sqlite.insert(table))
        return postgresql.insert(table)

    def fetch(
        self, statement: Executable, values: Mapping[str, Any] | None = None
    ) -> Sequence[sa.RowMapping]:
        """Run one reading statement; returns its rows."""
        with self.translating_errors(), self._reads.connect() as connection:
            return connection.execute(statement, values).mappings().all()

    def find(
        self, record: type[Record], statement: Executable, values: Mapping[str, Any] | None = None
    ) -> Record | None:
        """Run one reading statement; returns the first row as a record."""
        rows = self.fetch(statement, values)
        return record(**rows[0]) if rows else None

    def find_all(
        self, record: type[Record], statement: Executable, values: Mapping[str, Any] | None = None
    ) -> list[Record]:
        """Run one reading statement; returns the rows as records."""
        return [record(**row) for row in self.fetch(statement, values)]

    def change(
        self, record: type[Record], statement: Executable, values: Mapping[str, Any] | None = None
    ) -> Record | None:
        """Run one writing statement; returns the changed row as a record, `None` if it changed none."""
        rows = self.execute(statement, values)
        return record(**rows[0]) if rows else None

    def execute(
        self,
        statement: Executable,
        values: Mapping[str, Any] | None = None,
        *,
        durable: bool = True,
    ) -> Sequence[sa.RowMapping]:
        """Run one writing statement as one transaction; returns its rows, if it returns any."""
        engine = self._singles if durable else self._quick
        with self._noticing_busy(), engine.begin() as connection:
            result = connection.execute(statement, values)
            return result.mappings().all() if result.returns_rows else ()

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[sa.Connection]:
        """Run several statements as one transaction."""
        engine = self._quick if self.is_sqlite and not durable else self._writes
        with self._noticing_busy(), engine.begin() as connection:
            yield connection

    @contextmanager
    def write_portion(self, *, durable: bool = True) -> Iterator[sa.Connection]:
        """Run one of the many transactions of a long write; before the next one, others get as much time.

        The lock of SQLite is not fair: without the pause a waiting heartbeat would hardly ever get it.
        """
        if self.is_sqlite:
            self._clock.sleep(max(self._next_portion_at - self._clock.monotonic(), 0.0))
        with self.write(durable=durable) as connection:
            began = self._clock.monotonic()
            yield connection
        ended = self._clock.monotonic()
        self._next_portion_at = ended + max(ended - began, PAUSE_SECONDS)

    @contextmanager
    def _noticing_busy(self) -> Iterator[None]:
        try:
            with self.translating_errors():
                yield
        except BusyError as error:
            holders = self.on_busy()
            if holders:
                raise BusyError(f"{error} by {holders}", hint=error.hint) from error
            raise

    @contextmanager
    def translating_errors(self) -> Iterator[None]:
        """Turn errors of SQLAlchemy and the drivers into transient and permanent errors."""
        try:
            with _translate_errors(str(self)):
                yield
        except RefusedError as error:
            if self.refuses_for_good():
                raise
            raise TransientError(str(error), hint=error.hint) from error

    def close(self) -> None:
        self.engine.dispose()


def _parse_url(url: str) -> sa.URL:
    try:
        address = sa.make_url(url)
    except sa.exc.ArgumentError as error:
        raise PermanentError(
            f"not a database URL: {url!r}",
            hint="write sqlite:////folder/control.db or postgresql://…",
        ) from error
    match address.drivername:
        case "sqlite" if address.database in {None, "", ":memory:"}:
            raise PermanentError(
                "the control store cannot be in memory: replicas are separate processes",
                hint="name a file: sqlite:////folder/control.db",
            )
        case "sqlite":
            file = Path(cast("str", address.database)).expanduser().absolute()
            return address.set(database=str(file))
        case "postgresql" | "postgres" | "postgresql+psycopg":
            return address.set(drivername="postgresql+psycopg")
        case other:
            raise PermanentError(
                f"{other} is not supported as a control store",
                hint="write sqlite:////folder/control.db or postgresql://…",
            )


def _sqlite_engine(address: sa.URL) -> sa.Engine:
    file = Path(cast("str", address.database))
    network = find_network_file_system(file)
    if network is not None:
        raise PermanentError(
            f"the control store {file} is on a network file system ({network}): SQLite works on one host only",
            hint="name a local file in control_store.url or a local folder in home, or use PostgreSQL",
        )
    arguments: dict[str, Any] = {"isolation_level": None}
    if "timeout" not in address.query:
        arguments["timeout"] = BUSY_SECONDS
    engine = sa.create_engine(address, connect_args=arguments, json_serializer=_to_json)
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _postgresql_engine(address: sa.URL, connections: int) -> sa.Engine:
    query = {**_POSTGRESQL_QUERY, **address.query}
    engine = sa.create_engine(
        address.set(query=query),
        json_serializer=_to_json,
        pool_size=connections,
        max_overflow=0,
        pool_timeout=TURN_SECONDS,
    )
    event.listen(engine, "handle_error", _leave_read_only_server)
    return engine


def _leave_read_only_server(context: sa.engine.ExceptionContext) -> None:
    """Close the connections to a server that became a standby: new ones find the primary server."""
    if isinstance(context.original_exception, psycopg.errors.ReadOnlySqlTransaction):
        context.is_disconnect = True


_to_json = partial(json.dumps, allow_nan=False, separators=(",", ":"))


def _set_up_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute(f"PRAGMA journal_size_limit={WAL_BYTES}")
    connection.create_function(HOST_TIME, 0, SYSTEM_CLOCK.now)


def _begin_sqlite(connection: sa.Connection) -> None:
    synchronous = connection.get_execution_options().get(_SYNCHRONOUS)
    if synchronous is not None:  # a write
        connection.exec_driver_sql(f"PRAGMA synchronous={synchronous}")
        connection.exec_driver_sql("BEGIN IMMEDIATE")


_SQLITE_HINTS = {
    "SQLITE_BUSY": "check for a process that was stopped in a transaction: it holds the write lock",
    "SQLITE_LOCKED": "check for a process that was stopped in a transaction: it holds the write lock",
    "SQLITE_PROTOCOL": "try again: many processes opened the file at once",
    "SQLITE_FULL": "free some disk space",
    "SQLITE_IOERR": "read the system log: the disk or the file system fails",
    "SQLITE_NOMEM": "free some memory of the machine",
}
_REFUSED = ("authentication failed", "does not exist", "no pg_hba.conf entry", "not permitted")
_TRANSIENT_STATES = (
    "08",  # connection
    "25",  # read-only, as during a failover of the server
    "28",  # authorization, as while roles are restored
    "3D",  # no such database, as while it is renamed or restored
    "53",  # resources of the server
    "57",  # the operator has intervened
    "58",  # the server's system
)
_CONTENTION = (
    psycopg.errors.LockNotAvailable,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
)


@contextmanager
def _translate_errors(store: str) -> Iterator[None]:
    try:
        yield
    except sa_exc.TimeoutError as error:
        raise TransientError(
            f"no free connection to {store}", hint="use fewer threads at once"
        ) from error
    except sa_exc.DataError as error:
        raise _bad_value(store, error) from error
    except sa_exc.DBAPIError as error:
        raise _translate_driver_error(store, error) from error
    except (sa_exc.StatementError, ValueError, TypeError, OverflowError) as error:
        raise _bad_value(store, error) from error  # psycopg writes JSON itself


def _bad_value(store: str, error: Exception) -> PermanentError:
    return PermanentError(
        f"{store} cannot store or read a value: {error}",
        hint="write plain JSON to JSON columns: no NaN, no objects; numbers have 64 bits",
    )


def _translate_driver_error(store: str, error: sa_exc.DBAPIError) -> HoldfastError:
    cause = error.orig
    if isinstance(cause, sqlite3.Error):
        return _translate_sqlite_error(store, cause)
    state = getattr(cause, "sqlstate", None) or ""
    is_operational = isinstance(cause, psycopg.OperationalError) or error.connection_invalidated
    if is_operational or state.startswith(_TRANSIENT_STATES):
        return _translate_postgresql_error(store, cause)
    return RefusedError(
        f"{store} rejected a statement: {cause}",
        hint="report this as a defect of Holdfast, unless another program writes to the control store",
    )


def _translate_sqlite_error(store: str, cause: sqlite3.Error) -> HoldfastError:
    name = getattr(cause, "sqlite_errorname", None) or ""
    for prefix, hint in _SQLITE_HINTS.items():
        if name.startswith(prefix):
            kind = BusyError if prefix == "SQLITE_BUSY" else TransientError
            return kind(f"{store}: {cause}", hint=hint)
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM")):
        return RefusedError(
            f"{store}: {cause}", hint="allow this user to write to the file and to its folder"
        )
    if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return RefusedError(f"{store}: {cause}", hint="restore the file from a backup")
    return RefusedError(
        f"{store} rejected a statement: {cause} ({name})",
        hint="report this as a defect of Holdfast",
    )


def _translate_postgresql_error(store: str, cause: BaseException | None) -> HoldfastError:
    text = " ".join(str(cause).split())
    if any(word in text for word in _REFUSED):
        return TransientError(
            f"{store}: {text}", hint="check user, password and database name in the store's URL"
        )
    if isinstance(cause, psycopg.errors.ReadOnlySqlTransaction):
        return TransientError(
            f"{store}: {text}", hint="wait for the failover of the PostgreSQL server to end"
        )
    if isinstance(cause, _CONTENTION):
        return TransientError(f"{store}: {text}", hint="try again: another process holds a lock")
    return TransientError(
        f"{store}: {text}",
        hint="check that the PostgreSQL server is up and reachable from this host",
    )


class StoreNow(FunctionElement[float]):
    """Unix seconds on the database's clock, at the moment the statement runs."""

    name = "store_now"
    type = sa.Double()
    inherit_cache = True


def store_now() -> StoreNow:
    """Unix seconds on the database's clock, at the moment the statement runs."""
    return StoreNow()


@compiles(StoreNow, "postgresql")
def _postgresql_now(_element: StoreNow, _compiler: SQLCompiler, **_: Any) -> str:
    # not now(): that is the start of the transaction, which may have waited for a lock since
    return "CAST(extract(epoch FROM clock_timestamp()) AS DOUBLE PRECISION)"


@compiles(StoreNow, "sqlite")
def _sqlite_now(_element: StoreNow, _compiler: SQLCompiler, **_: Any) -> str:
    return f"{HOST_TIME}()"


class EnumText(sa.types.TypeDecorator[StrEnum]):
    """A `StrEnum` kept as its text, so that a new member needs no migration."""

    impl = sa.Text
    cache_ok = True

    def __init__(self, enum: type[StrEnum]) -> None:
        super().__init__()
        self.enum = enum

    def process_bind_param(self, value: StrEnum | None, dialect: Dialect) -> str | None:
        """Store the member's text; `ValueError` if it is no member."""
        return None if value is None else self.enum(value).value

    def process_result_value(self, value: str | None, dialect: Dialect) -> StrEnum | None:
        return None if value is None else self.enum(value)


class JsonByEpoch(sa.types.TypeDecorator[dict[int, Any]]):
    """A mapping by epoch; JSON has no numbers as keys."""

    impl = sa.JSON
    cache_ok = True

    def process_result_value(
        self, value: dict[str, Any] | None, dialect: Dialect
    ) -> dict[int, Any]:
        """Read the epochs back as numbers."""
        return {int(epoch): item for epoch, item in (value or {}).items()}


class SwitchesJson(sa.types.TypeDecorator[Switches]):
    """The switches of a replica as a JSON object."""

    impl = sa.JSON
    cache_ok = True

    def process_bind_param(self, value: Switches | None, dialect: Dialect) -> dict[str, bool]:
        return asdict(value or Switches())

    def process_result_value(self, value: dict[str, bool] | None, dialect: Dialect) -> Switches:
        """Read the switches back; a missing one is off."""
        return Switches(**(value or {}))
