"""Bring a control store up to the schema that this code is written for.

A new store is made from `schema.py`; an older one is changed by the scripts in `versions/`. Any process
may be the first to open a store, and several may at once: the upgrade is one transaction under a lock (a
lock file beside SQLite, an advisory lock in PostgreSQL), and a process that had to wait for it looks again
before doing anything.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, cast

import sqlalchemy as sa

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.resources.clock import wait_until
from holdfast.resources.control_store.database import Database
from holdfast.resources.control_store.schema import HEAD, metadata
from holdfast.resources.file_lock import try_lock

log = logging.getLogger(__name__)

LOCK_SECONDS = 30.0
VERSIONS = Path(__file__).parent / "versions"
_ADVISORY_KEY = 0x484F_4C44  # "HOLD"
_INCREMENTAL = 2
_SHRINKABLE = f"PRAGMA auto_vacuum={_INCREMENTAL}"
_VERSION = sa.Table(  # as Alembic keeps it
    "alembic_version", sa.MetaData(), sa.Column("version_num", sa.String(32), primary_key=True)
)


def upgrade_schema(database: Database, *, versions: Path = VERSIONS, head: str = HEAD) -> None:
    """Make the schema current; `PermanentError` if the store is newer than this code."""
    _make_folder(database)
    with database.translating_errors():
        with database.engine.connect() as connection:
            if _version(connection) == head:
                return
        lock = _locked_file(database) if database.is_sqlite else nullcontext()
        with lock:
            _prepare(database)
            with database.write() as connection:
                if not database.is_sqlite:
                    _lock_postgresql(connection)
                version = _version(connection)
                if version is None:
                    _create(connection, head)
                elif version != head:
                    _upgrade(connection, versions, version, head, store=str(database))
            if database.is_sqlite:
                _let_file_shrink(database)


def require_schema(database: Database) -> None:
    """Raise unless the schema is current: a replica comes after the process that makes it, and makes none.

    A schema that is away or older may be one that is being restored. A newer one needs a newer replica.
    """
    with database.translating_errors(), database.engine.connect() as connection:
        version = _version(connection)
    if version is None or version < HEAD:
        raise TransientError(
            f"{database} has the schema {version}, not {HEAD}",
            hint="wait, if it is being restored; then any command, as `holdfast status`, brings it up to date",
        )
    if version != HEAD:
        raise _newer(str(database), version, HEAD)


def is_newer(database: Database) -> bool:
    """Whether a newer version of Holdfast has upgraded the store; `False` if that cannot be read."""
    try:
        with database.engine.connect() as connection:
            return (_version(connection) or HEAD) > HEAD
    except sa.exc.SQLAlchemyError:
        return False


def _newer(store: str, version: str, head: str) -> PermanentError:
    return PermanentError(
        f"{store} cannot be opened: its schema {version} is newer than {head}, which this version of Holdfast uses",
        hint="use the version of Holdfast that made it, or a newer one",
    )


def _make_folder(database: Database) -> None:
    """Make the folder of a SQLite file."""
    if not database.is_sqlite:
        return
    try:
        _file(database).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise PermanentError(
            f"the folder of the control store cannot be made: {error}",
            hint="allow this user to write there, or choose another folder",
        ) from error


def _file(database: Database) -> Path:
    return Path(cast("str", database.address.database))


def _version(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table(_VERSION.name):
        return None
    return connection.execute(sa.select(_VERSION.c.version_num)).scalar()


def _create(connection: sa.Connection, head: str) -> None:
    metadata.create_all(connection, checkfirst=False)
    _VERSION.create(connection)
    connection.execute(sa.insert(_VERSION).values(version_num=head))


def _upgrade(
    connection: sa.Connection, versions: Path, version: str, head: str, *, store: str
) -> None:
    # alembic is slow to import, and a store that is new or current needs none of it
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory(versions.parent, version_locations=[versions])
    if version not in {script.revision for script in scripts.walk_revisions()}:
        raise _newer(store, version, head)
    with Operations.context(MigrationContext.configure(connection)):
        for script in reversed(list(scripts.iterate_revisions(head, version))):
            script.module.upgrade()
    connection.execute(sa.update(_VERSION).values(version_num=head))


def _prepare(database: Database) -> None:
    """Switch a SQLite file to WAL, which stays with the file; only safe under the lock.

    In a new file this also lets retention give free pages back.
    """
    if database.is_sqlite:
        with database.engine.connect() as connection:
            connection.exec_driver_sql(_SHRINKABLE)
            connection.exec_driver_sql("PRAGMA journal_mode=WAL")


def _let_file_shrink(database: Database) -> None:
    """Write the file of an older version again, without the pages that the upgrade freed; they could not go otherwise.

    This needs as much disk space again and no other writer. If it fails, the file only stays as large as it is.
    """
    with database.engine.connect() as connection:
        if connection.exec_driver_sql("PRAGMA auto_vacuum").scalar() == _INCREMENTAL:
            return
        try:
            connection.exec_driver_sql(_SHRINKABLE)
            connection.exec_driver_sql("VACUUM")
        except sa.exc.DBAPIError as error:
            log.warning("%s keeps its size after the upgrade: %s", database, error.orig)


def _lock_postgresql(connection: sa.Connection) -> None:
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = {int(LOCK_SECONDS * 1000)}")
    connection.exec_driver_sql("SET LOCAL statement_timeout = 0")  # a large store takes its time
    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_KEY)))


@contextmanager
def _locked_file(database: Database) -> Iterator[None]:
    path = Path(f"{_file(database)}.lock")
    with _lock_file(path) as file:
        if not wait_until(lambda: try_lock(file), patience_seconds=LOCK_SECONDS, poll_seconds=0.02):
            raise TransientError(
                f"{database} cannot be opened: another process is upgrading it",
                hint=f"wait; if it lasts, check the process that holds {path.name}",
            )
        yield


def _lock_file(path: Path) -> IO[str]:
    try:
        return path.open("a")
    except OSError as error:
        raise PermanentError(
            f"the control store cannot be locked: {error}",
            hint="allow this user to write to the folder of the control store",
        ) from error
