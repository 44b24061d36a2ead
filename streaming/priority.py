"""The CPU priority of a replica and of all processes that belong to it.

Linux keeps a nice value per thread, and new threads and processes inherit it. So it is lowered
before anything is started, and raised thread by thread. A user who may not raise it again (that takes
CAP_SYS_NICE or a limit) keeps the usual priority: a replica that was promoted must not stay slow.
"""

import logging
import os
from contextlib import suppress

import psutil

log = logging.getLogger(__name__)


def lower(nice: int) -> None:
    """Run this thread, and whatever it starts, at a lower priority, unless that cannot be undone."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        os.setpriority(os.PRIO_PROCESS, 0, before + 1)
        os.setpriority(os.PRIO_PROCESS, 0, before)
    except PermissionError:
        log.warning(
            "this user may not raise a priority again (CAP_SYS_NICE, or `ulimit -e`): it stays as it is"
        )
        return
    os.setpriority(os.PRIO_PROCESS, 0, nice)


def restore() -> None:
    """Give every thread of this process and of its children the usual priority."""
    this = psutil.Process()
    for process in [this, *this.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess, ProcessLookupError, PermissionError):
            for thread in process.threads():
                with suppress(ProcessLookupError):
                    os.setpriority(os.PRIO_PROCESS, thread.id, 0)
