"""The CPU share of a session, for kernels that share the CPU out by session (Linux with autogroup).

There a nice value counts only between the threads of one session, and two sessions get the same share
whatever theirs are. A replica leads a session of its own, so it lowers that, too. Any user may raise it
again. Without such groups, or where control groups share the CPU out, this changes nothing.
"""

import logging
import os
from pathlib import Path

from resources.clock import SYSTEM_CLOCK

ATTEMPTS = 5
PAUSE_SECONDS = 0.11  # the kernel takes a change each tenth of a second from ordinary users

_GROUP = Path("/proc/self/autogroup")
_usual: list[int] = []  # the nice value before it was lowered; none while it is as it was

log = logging.getLogger(__name__)


def current() -> int | None:
    """The nice value of this session; `None` if the kernel knows no such thing."""
    try:
        return int(_GROUP.read_text().rpartition(" ")[2])
    except (OSError, ValueError):
        return None


def lower(nice: int) -> None:
    """Lower the session that this process leads, unless it is as low already; another's is left alone."""
    before = current()
    if before is not None and before < nice and os.getsid(0) == os.getpid():
        _usual[:] = [before]
        _set(nice)


def restore() -> None:
    """Give it the share that it had before."""
    if _usual:
        _set(_usual[0])


def _set(nice: int) -> None:
    for _ in range(ATTEMPTS):
        try:
            _GROUP.write_text(str(nice))
        except BlockingIOError:
            SYSTEM_CLOCK.sleep(PAUSE_SECONDS)
        except OSError as error:
            log.warning("the priority of this session cannot be changed: %s", error)
            return
        else:
            return
    log.warning("the priority of this session stays at %s, not %s", current(), nice)
