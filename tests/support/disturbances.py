"""Replicas whose clock is wrong and whose control store is slow.

Drivers have the project's folder on their path, so a `sitecustomize.py` in it is the first thing
that every Python process of a driver runs: the driver itself, its source, its tasks. Replicas that
run already do not notice. Production code knows nothing of it.
"""

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from resources.control.database import Database
from tests.support.control_clocks import shift_database_clock

FILE = "sitecustomize.py"


def disturb(project: Path, *, clock_seconds: float = 0.0, latency_seconds: float = 0.0) -> None:
    """Replicas that are started from now on see another time, and wait for the control store."""
    (project / FILE).write_text(
        f"from {__name__} import install\ninstall({clock_seconds}, {latency_seconds})\n"
    )


def calm(project: Path) -> None:
    """Replicas that are started from now on are well again."""
    (project / FILE).unlink()


def install(clock_seconds: float, latency_seconds: float) -> None:
    """Disturb this process."""
    made = Database.__init__

    @functools.wraps(made)
    def with_another_clock(self: Database, url: str) -> None:
        made(self, url)
        shift_database_clock(self, clock_seconds)

    Database.__init__ = with_another_clock  # type: ignore[method-assign]
    for name in ("fetch", "execute", "write"):
        setattr(Database, name, _slow(getattr(Database, name), latency_seconds))


def _slow(verb: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    @functools.wraps(verb)
    def slow(*arguments: Any, **named: Any) -> Any:
        time.sleep(seconds)
        return verb(*arguments, **named)

    return slow
