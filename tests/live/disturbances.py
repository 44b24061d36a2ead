"""Replicas whose clock is wrong, whose control store is slow, whose host has the load that a test wants.

Drivers have the project's folder on their path, so a `sitecustomize.py` in it is the first thing
that every Python process of a driver runs: the driver itself, its source, its tasks. Replicas that
run already do not notice. Production code knows nothing of it.
"""

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from holdfast.resources.control_store.database import Database
from tests.fakes.clocks import shift_database_clock

FILE = "sitecustomize.py"
LOAD = "host_load.txt"


def disturb(project: Path, *, clock_seconds: float = 0.0, latency_seconds: float = 0.0) -> None:
    """Replicas that are started from now on see another time, and wait for the control store."""
    (project / FILE).write_text(
        f"from {__name__} import install\ninstall({clock_seconds}, {latency_seconds})\n"
    )


def load_host(project: Path, share: float) -> None:
    """From now on the host is as loaded as this, to replicas that were started after the first call."""
    scratch = project / f"{LOAD}.tmp"
    scratch.write_text(str(share))
    scratch.replace(project / LOAD)
    (project / FILE).write_text(
        f"from {__name__} import measure_instead\nmeasure_instead({str(project / LOAD)!r})\n"
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


def measure_instead(path: str) -> None:
    """Let this process take what a file says for the load of its host."""

    def cpu_percent(interval: float | None = None) -> float:
        return 100.0 * float(Path(path).read_text())

    psutil.cpu_percent = cpu_percent


def _slow(verb: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    @functools.wraps(verb)
    def slow(*arguments: Any, **named: Any) -> Any:
        time.sleep(seconds)
        return verb(*arguments, **named)

    return slow
