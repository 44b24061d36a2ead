"""One database, SQLite or PostgreSQL: its transactions, its clock, its column types, its errors.

SQLite: the driver is in autocommit mode and we say BEGIN ourselves, so a read takes no lock and a
write takes the write lock at once (BEGIN IMMEDIATE): a transaction that reads and then writes waits
for its turn and never fails half-way. Commits are synchronous=FULL, because with WAL's usual NORMAL
a power cut may undo the last ones, and a decided epoch whose output is out must stay decided. Only
heartbeats and samples (`durable=False`) go without: the next durable commit takes them along.
PostgreSQL: a single statement is its own transaction, one round trip.

All processes of a stream judge leases by one clock, the database's (`store_now`), so hosts whose own
clocks are minutes apart still agree on who is late.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
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
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.base import Executable
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from holdfast.ft_policies.errors import HoldfastError, PermanentError, TransientError
from holdfast.ft_policies.tiers import Switches

BUSY_SECONDS = 5.0
"""How long to wait for a lock; `?timeout=` in a SQLite URL says otherwise."""

_SYNCHRONOUS = "holdfast_synchronous"
_POSTGRESQL_QUERY = {
    "connect_timeout": "5",
    "tcp_user_timeout": "10000",
    "application_name": "holdfast",
    # a process stopped inside a transaction must not hold the others up for ever
    "options": "-c lock_timeout=5000 -c idle_in_transaction_session_timeout=15000",
}


Record = TypeVar("Record")


class Database:
    """An engine whose errors are ours and whose writes are one transaction each."""

    def __init__(self, url: str) -> None:
        self.address = _parsed(url)
        self.is_sqlite = self.address.get_backend_name() == "sqlite"
        self._reads: sa.Engine
        self._writes: sa.Engine
        if self.is_sqlite:
            self.engine = _sqlite_engine(self.address)
            self._reads = self.engine
            self._writes = self._singles = self.engine.execution_options(**{_SYNCHRONOUS: "FULL"})
            self._quick = self.engine.execution_options(**{_SYNCHRONOUS: "NORMAL"})
        else:
            self.engine = _postgresql_engine(self.address)
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
        """The rows of one reading statement."""
        with translated(str(self)), self._reads.connect() as connection:
            return connection.execute(statement, values).mappings().all()

    def find(
        self, record: type[Record], statement: Executable, values: Mapping[str, Any] | None = None
    ) -> Record | None:
        """The first row of one reading statement, as a record."""
        rows = self.fetch(statement, values)
        return record(**rows[0]) if rows else None

    def find_all(
        self, record: type[Record], statement: Executable, values: Mapping[str, Any] | None = None
    ) -> list[Record]:
        """The rows of one reading statement, as records."""
        return [record(**row) for row in self.fetch(statement, values)]

    def change(
        self, record: type[Record], statement: Executable, values: Mapping[str, Any] | None = None
    ) -> Record | None:
        """The row that one writing statement has changed, as a record; `None` if it changed none."""
        rows = self.execute(statement, values)
        return record(**rows[0]) if rows else None

    def execute(
        self,
        statement: Executable,
        values: Mapping[str, Any] | None = None,
        *,
        durable: bool = True,
    ) -> Sequence[sa.RowMapping]:
        """One writing statement as one transaction; the rows it returns, if it returns any."""
        engine = self._singles if durable else self._quick
        with translated(str(self)), engine.begin() as connection:
            result = connection.execute(statement, values)
            return result.mappings().all() if result.returns_rows else ()

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[sa.Connection]:
        """Several statements as one transaction."""
        engine = self._quick if self.is_sqlite and not durable else self._writes
        with translated(str(self)), engine.begin() as connection:
            yield connection

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def _parsed(url: str) -> sa.URL:
    try:
        address = sa.make_url(url)
    except sa.exc.ArgumentError as error:
        raise PermanentError(
            f"not a database URL: {url!r}", hint="sqlite:////folder/control.db or postgresql://…"
        ) from error
    match address.drivername:
        case "sqlite" if address.database in {None, "", ":memory:"}:
            raise PermanentError(
                "the control store cannot live in memory: replicas are processes of their own",
                hint="name a file: sqlite:////folder/control.db",
            )
        case "sqlite":
            file = Path(cast("str", address.database)).expanduser().absolute()
            return address.set(database=str(file))
        case "postgresql" | "postgres" | "postgresql+psycopg":
            return address.set(drivername="postgresql+psycopg")
        case other:
            raise PermanentError(
                f"no control store on {other}",
                hint="sqlite:////folder/control.db or postgresql://…",
            )


def _sqlite_engine(address: sa.URL) -> sa.Engine:
    file = Path(cast("str", address.database))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PermanentError(
            f"cannot make the folder of the control store: {error}",
            hint="may this user write there?",
        ) from error
    arguments: dict[str, Any] = {"isolation_level": None}
    if "timeout" not in address.query:
        arguments["timeout"] = BUSY_SECONDS
    engine = sa.create_engine(address, connect_args=arguments, json_serializer=_to_json)
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _postgresql_engine(address: sa.URL) -> sa.Engine:
    query = {**_POSTGRESQL_QUERY, **address.query}
    return sa.create_engine(address.set(query=query), json_serializer=_to_json)


_to_json = partial(json.dumps, allow_nan=False, separators=(",", ":"))


def _set_up_sqlite(connection: DBAPIConnection, _record: object) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def _begin_sqlite(connection: sa.Connection) -> None:
    synchronous = connection.get_execution_options().get(_SYNCHRONOUS)
    if synchronous is not None:  # a write
        connection.exec_driver_sql(f"PRAGMA synchronous={synchronous}")
        connection.exec_driver_sql("BEGIN IMMEDIATE")


_SQLITE_HINTS = {
    "SQLITE_BUSY": "another process holds the write lock; a process stopped in a transaction keeps it",
    "SQLITE_LOCKED": "another process holds the write lock; a process stopped in a transaction keeps it",
    "SQLITE_PROTOCOL": "many processes opened the file at once",
    "SQLITE_FULL": "the disk is full: free some space",
    "SQLITE_IOERR": "the disk or the file system fails: look at the system log",
    "SQLITE_NOMEM": "the machine is out of memory",
}
_REFUSED = ("authentication failed", "does not exist", "no pg_hba.conf entry", "not permitted")
_CONTENTION = (
    psycopg.errors.LockNotAvailable,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
)


@contextmanager
def translated(store: str) -> Iterator[None]:
    """Turn what SQLAlchemy and the drivers raise into errors of ours."""
    try:
        yield
    except sa_exc.TimeoutError as error:
        raise TransientError(
            f"no free connection to {store}", hint="too many threads use the control store at once"
        ) from error
    except sa_exc.DBAPIError as error:
        raise _of_driver(store, error) from error
    except (sa_exc.StatementError, ValueError, TypeError, OverflowError) as error:
        raise PermanentError(  # psycopg writes JSON itself and lets these through
            f"a value that the control store cannot keep or that this code cannot read: {error}",
            hint="JSON columns take plain JSON: no NaN, no objects; numbers have 64 bits",
        ) from error


def _of_driver(store: str, error: sa_exc.DBAPIError) -> HoldfastError:
    cause = error.orig
    if isinstance(cause, sqlite3.Error):
        return _of_sqlite(store, cause)
    if isinstance(cause, psycopg.OperationalError) or error.connection_invalidated:
        return _of_postgresql(store, cause)
    return PermanentError(
        f"{store} refused: {cause}",
        hint="this is a defect of Holdfast or of who else writes to the control store",
    )


def _of_sqlite(store: str, cause: sqlite3.Error) -> HoldfastError:
    name = getattr(cause, "sqlite_errorname", None) or ""
    for prefix, hint in _SQLITE_HINTS.items():
        if name.startswith(prefix):
            return TransientError(f"{store}: {cause}", hint=hint)
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM")):
        return PermanentError(
            f"{store}: {cause}", hint="may this user write to the file and to its folder?"
        )
    if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return PermanentError(f"{store}: {cause}", hint="restore the file from a backup")
    return PermanentError(f"{store} refused: {cause} ({name})", hint="this is a defect of Holdfast")


def _of_postgresql(store: str, cause: BaseException | None) -> HoldfastError:
    text = " ".join(str(cause).split())
    if any(word in text for word in _REFUSED):
        return PermanentError(
            f"{store}: {text}", hint="check user, password and database name in the store's URL"
        )
    if isinstance(cause, _CONTENTION):
        return TransientError(f"{store}: {text}", hint="another process holds the row for long")
    return TransientError(
        f"{store}: {text}", hint="is the PostgreSQL server up and reachable from this host?"
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
    return "((julianday('now') - 2440587.5) * 86400.0)"  # 2440587.5 is 1970-01-01


class EnumText(sa.types.TypeDecorator[StrEnum]):
    """A `StrEnum` kept as its text, so that a new member needs no migration."""

    impl = sa.Text
    cache_ok = True

    def __init__(self, enum: type[StrEnum]) -> None:
        super().__init__()
        self.enum = enum

    def process_bind_param(self, value: StrEnum | None, dialect: Dialect) -> str | None:
        """Store the member's text; refuse what is no member."""
        return None if value is None else self.enum(value).value

    def process_result_value(self, value: str | None, dialect: Dialect) -> StrEnum | None:
        """Read the member back."""
        return None if value is None else self.enum(value)


class JsonByEpoch(sa.types.TypeDecorator[dict[int, Any]]):
    """A mapping by epoch; JSON has no numbers as keys."""

    impl = sa.JSON
    cache_ok = True

    def process_result_value(
        self, value: dict[str, Any] | None, dialect: Dialect
    ) -> dict[int, Any]:
        """Read the epochs back as numbers."""
        return {int(epoch): found for epoch, found in (value or {}).items()}


class SwitchesJson(sa.types.TypeDecorator[Switches]):
    """The switches of a replica as a JSON object."""

    impl = sa.JSON
    cache_ok = True

    def process_bind_param(self, value: Switches | None, dialect: Dialect) -> dict[str, bool]:
        """Store each switch by name."""
        return asdict(value or Switches())

    def process_result_value(self, value: dict[str, bool] | None, dialect: Dialect) -> Switches:
        """Read the switches back; one that is not there is off."""
        return Switches(**(value or {}))
