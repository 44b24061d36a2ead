"""Bring a control store up to the schema that this code is written for.

Any process may be the first to open a store, and several may at once: the migration is one
transaction under a lock (a lock file beside SQLite, an advisory lock in PostgreSQL), and whoever
waited for it looks again before doing anything.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, cast

import sqlalchemy as sa

from ft_policies.errors import PermanentError, TransientError
from resources.clock import SYSTEM_CLOCK
from resources.control_store.database import Database, translated
from resources.control_store.schema import HEAD

LOCK_SECONDS = 30.0
MIGRATIONS = Path(__file__).parent / "migrations"
_ADVISORY_KEY = 0x484F_4C44  # "HOLD"


def migrate(database: Database) -> None:
    """Make the schema current, or say why it cannot be."""
    with translated(str(database)):
        with database.engine.connect() as connection:
            if _revision(connection) == HEAD:
                return
        lock = _locked_file(database) if database.is_sqlite else nullcontext()
        with lock:
            _prepare(database)
            with database.write() as connection:
                if not database.is_sqlite:
                    _lock_postgresql(connection)
                _upgrade(database, connection, _revision(connection))


def _revision(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()


def _upgrade(database: Database, connection: sa.Connection, revision: str | None) -> None:
    # alembic is slow to import, and a store that is current needs none of it
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if revision is not None and revision not in known:
        raise PermanentError(
            f"{database} has schema {revision}, newer than this Holdfast knows ({HEAD})",
            hint="run the Holdfast version that made it, or a newer one",
        )
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _prepare(database: Database) -> None:
    """Switch a SQLite file to WAL, which stays with the file; only safe while no one else does."""
    if database.is_sqlite:
        with database.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode=WAL")


def _lock_postgresql(connection: sa.Connection) -> None:
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = {int(LOCK_SECONDS * 1000)}")
    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_KEY)))


@contextmanager
def _locked_file(database: Database) -> Iterator[None]:
    path = Path(cast("str", database.address.database) + ".lock")
    deadline = SYSTEM_CLOCK.monotonic() + LOCK_SECONDS
    with _lock_file(path) as file:
        while not _try_lock(file):
            if SYSTEM_CLOCK.monotonic() > deadline:
                raise TransientError(
                    f"{database} is being migrated by another process",
                    hint=f"does the process that holds {path.name} still work?",
                )
            SYSTEM_CLOCK.sleep(0.02)
        yield


def _lock_file(path: Path) -> IO[str]:
    try:
        return path.open("a")
    except OSError as error:
        raise PermanentError(
            f"cannot lock the control store: {error}",
            hint="may this user write to the folder of the control store?",
        ) from error


def _try_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
