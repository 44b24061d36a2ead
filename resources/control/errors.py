"""From what a database driver says to whether it is worth trying again."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import sqlalchemy.exc as sa_exc

from ft_policies.errors import HoldfastError, PermanentError, TransientError

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
