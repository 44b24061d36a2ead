"""Clocks that move, or let their callers go on, as a test says."""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import event

from holdfast.resources.clock import SYSTEM_CLOCK, SystemClock
from holdfast.resources.control_store.database import HOST_TIME, Database
from holdfast.resources.control_store.store import ControlStore


@dataclass
class SteppedClock:
    """Time stands still between steps."""

    at: float = 1000.0

    def step(self, seconds: float) -> None:
        self.at += seconds

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.step(seconds)


@dataclass
class RunningClock(SteppedClock):
    """A step lies between two readings: what is timed by it takes that long, or longer."""

    step_seconds: float = 1.0

    def now(self) -> float:
        self.step(self.step_seconds)
        return self.at

    def monotonic(self) -> float:
        return self.now()


@dataclass(frozen=True, slots=True)
class SleeplessClock(SystemClock):
    """The machine's own, but that something happens instead of a sleep."""

    instead: Callable[[], object] = lambda: None

    def sleep(self, seconds: float) -> None:
        self.instead()


def shift_clock(store: ControlStore, seconds: float) -> None:
    """Let the store's clock, as this process sees it, run ahead of or behind the host's.

    PostgreSQL has a clock of its own, the same for all, which no host's clock can move.
    """
    shift_database_clock(store._database, seconds)


def shift_database_clock(database: Database, seconds: float) -> None:
    """The same for a database, open or not."""
    if not database.is_sqlite:
        return

    def replace_clock(connection: sqlite3.Connection, _record: object) -> None:
        connection.create_function(HOST_TIME, 0, lambda: SYSTEM_CLOCK.now() + seconds)

    event.listen(database.engine, "connect", replace_clock)
    database.engine.dispose()  # connections made before have the right time
