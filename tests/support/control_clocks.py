"""Control stores whose clock is wrong: SQLite's is that of the host, and hosts may be minutes apart."""

import sqlite3

from sqlalchemy import event

from holdfast.resources.clock import SYSTEM_CLOCK
from holdfast.resources.control_store.database import Database
from holdfast.resources.control_store.store import ControlStore

_JULIAN_1970 = 2440587.5
_DAY_SECONDS = 86400.0


def shift_clock(store: ControlStore, seconds: float) -> None:
    """Let the store's clock, as this process sees it, run ahead of or behind the host's.

    PostgreSQL has a clock of its own, the same for all, which no host's clock can move.
    """
    shift_database_clock(store._database, seconds)


def shift_database_clock(database: Database, seconds: float) -> None:
    """The same for a database, open or not."""
    if not database.is_sqlite:
        return

    def julianday(_when: str) -> float:
        return (SYSTEM_CLOCK.now() + seconds) / _DAY_SECONDS + _JULIAN_1970

    def replace_clock(connection: sqlite3.Connection, _record: object) -> None:
        connection.create_function("julianday", 1, julianday)

    event.listen(database.engine, "connect", replace_clock)
    database.engine.dispose()  # connections made before have the right time
