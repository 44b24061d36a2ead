"""One database, SQLite or PostgreSQL, behind three verbs: fetch, execute, write.

SQLite: the driver is in autocommit mode and we say BEGIN ourselves, so a read takes no lock and a
write takes the write lock at once (BEGIN IMMEDIATE): a transaction that reads and then writes waits
for its turn and never fails half-way. Commits are synchronous=FULL, because with WAL's usual NORMAL
a power cut may undo the last ones, and a decided epoch whose output is out must stay decided. Only
heartbeats and samples (`durable=False`) go without: the next durable commit takes them along.
PostgreSQL: a single statement is its own transaction, one round trip.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.sql.base import Executable

from ft_policies.errors import PermanentError
from resources.control.errors import translated

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
