"""The only place that reads this machine's clock.

Facts that several processes compare (leases, heartbeats, epochs) carry the control store's time
instead: see `holdfast.resources.control_store.database.store_now`.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """Time as one process sees it."""

    def now(self) -> float:
        """Unix seconds on this machine's wall clock."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run backwards, for durations and deadlines."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block the calling thread for this long."""
        ...


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        """Unix seconds on this machine's wall clock."""
        return time.time()  # noqa: TID251

    def monotonic(self) -> float:
        """Seconds that never run backwards, for durations and deadlines."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Block the calling thread for this long."""
        time.sleep(seconds)


SYSTEM_CLOCK = SystemClock()


def read_seconds_since_boot() -> float:
    """The clock of the start times of processes; it also counts while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def wait_until(
    is_over: Callable[[], bool],
    *,
    patience_seconds: float,
    poll_seconds: float,
    clock: Clock = SYSTEM_CLOCK,
    progress: Callable[[], object] = lambda: None,
    keep_alive: Callable[[], None] = lambda: None,
) -> bool:
    """Poll a condition; return false if it does not hold within `patience_seconds`.

    The time starts again whenever `progress`, which is read after each check, has changed.
    """
    deadline, last = clock.monotonic() + patience_seconds, None
    while True:
        if is_over():
            return True
        keep_alive()
        now, current = clock.monotonic(), progress()
        if current != last:
            deadline, last = now + patience_seconds, current
        elif now >= deadline:
            return False
        clock.sleep(poll_seconds)
