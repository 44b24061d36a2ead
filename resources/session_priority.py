"""The CPU share of a session, for kernels that share the CPU out by session (Linux with autogroup).

There a nice value counts only between the threads of one session, and two sessions get the same share
whatever theirs are. Replicas and servers lead sessions of their own, so these are lowered, too. Any user
may raise them again. Without such groups, or where control groups share the CPU out, this changes nothing.
"""

import logging
import os
from pathlib import Path

from resources.clock import SYSTEM_CLOCK

ATTEMPTS = 5
PAUSE_SECONDS = 0.11  # the kernel takes a change each tenth of a second from ordinary users

_usual: list[int] = []  # the nice value before it was lowered; none while it is as it was

log = logging.getLogger(__name__)


def current(pid: int | None = None) -> int | None:
    """The nice value of a session, by its leader; `None` if the kernel knows no such thing."""
    try:
        return int(_group(pid).read_text().rpartition(" ")[2])
    except (OSError, ValueError):
        return None


def lower(nice: int) -> None:
    """Lower the session that this process leads, unless it is as low already; another's is left alone."""
    before = current()
    if before is not None and before < nice and os.getsid(0) == os.getpid():
        _usual[:] = [before]
        change(nice)


def restore() -> None:
    """Give it the share that it had before."""
    if all(change(before) for before in _usual):
        _usual.clear()


def change(nice: int, pid: int | None = None) -> bool:
    """Give a session this nice value, by its leader; whether it has it now, if there is such a thing."""
    if current(pid) is None:
        return True
    for _ in range(ATTEMPTS):
        try:
            _group(pid).write_text(str(nice))
        except BlockingIOError:
            SYSTEM_CLOCK.sleep(PAUSE_SECONDS)
        except OSError as error:
            log.warning("the priority of a session cannot be changed: %s", error)
            return False
        else:
            return True
    log.warning("the priority of a session stays at %s, not %s", current(pid), nice)
    return False


def _group(pid: int | None) -> Path:
    return Path(f"/proc/{pid or 'self'}/autogroup")
