"""The only place that reads this machine's clock.

Facts that several processes compare (leases, heartbeats, epochs) carry the control store's time
instead: see `holdfast.resources.control_store.database.store_now`.
"""

import time
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
