"""The CPU priority of a replica and of all processes that belong to it.

Linux keeps a nice value per thread, and new threads and processes inherit it. So it is lowered
before anything is started, and raised thread by thread. A user who may not raise it again (that takes
CAP_SYS_NICE or a limit) keeps the usual priority: a replica that was promoted must not stay slow.
Between sessions those values may count for nothing: see `session_priority`.
"""

import logging
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import psutil

from resources import session_priority

GIVING_WAY = 10  # nice: who runs beside a primary that must not be slowed down
LOWEST = 19
MOST_PASSES = 5

log = logging.getLogger(__name__)

_usual: list[int] = []  # the nice value before it was lowered; none while it is as it was


def lower(nice: int, *, seconds: float | None = None) -> None:
    """Run this thread, and whatever it starts, at this priority, unless it is as low already.

    Nothing changes if that could not be undone. After so many seconds it is.
    """
    before = os.getpriority(os.PRIO_PROCESS, 0)
    if nice <= before:
        return
    session_priority.lower(nice)
    if may_be_raised():
        _usual[:] = [before]
        os.setpriority(os.PRIO_PROCESS, 0, nice)
    else:
        log.warning(
            "this user may not raise a priority again (CAP_SYS_NICE, or `ulimit -e`): it stays as it is"
        )
    if seconds is not None:
        end = threading.Timer(seconds, restore)
        end.daemon = True
        end.start()


def restore() -> None:
    """Give every thread of this process and of its children the priority that it had before."""
    session_priority.restore()
    for before in [*_usual]:
        for _ in range(MOST_PASSES):  # a thread that is born meanwhile has that of its parent
            if not _raise_all(before):
                break
    _usual.clear()


def may_be_raised() -> bool:
    """Whether this user may lower a priority and raise it again.

    It is tried on a thread that ends at once: where it cannot be raised, that one alone stays low.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="priority") as pool:
        return pool.submit(_lower_and_raise).result()


def _lower_and_raise() -> bool:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    os.setpriority(os.PRIO_PROCESS, 0, before + 1)
    try:
        os.setpriority(os.PRIO_PROCESS, 0, before)
    except PermissionError:
        return False
    return True


def _raise_all(nice: int) -> bool:
    """Raise whoever is lower; whether there was anybody."""
    this, raised = psutil.Process(), False
    for process in [this, *this.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess, ProcessLookupError, PermissionError):
            for thread in process.threads():
                with suppress(ProcessLookupError):
                    if os.getpriority(os.PRIO_PROCESS, thread.id) > nice:
                        os.setpriority(os.PRIO_PROCESS, thread.id, nice)
                        raised = True
    return raised
