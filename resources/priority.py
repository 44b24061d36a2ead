"""The CPU priority of a replica and of all processes that belong to it.

Linux keeps a nice value per thread, and new threads and processes inherit it. So it is lowered
before anything is started, and raised thread by thread. A user who may not raise it again (that takes
CAP_SYS_NICE or a limit) keeps the normal priority: a promoted replica must not stay slow.

Kernels with autogroup share the CPU out by session: there a nice value counts only between the threads of
one session, and two sessions get the same share whatever theirs are. Replicas and servers lead sessions of
their own, so these are lowered, too; any user may raise them again. Without autogroup, or where control
groups share the CPU out, the session functions change nothing.
"""

import logging
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil

from holdfast.resources.clock import SYSTEM_CLOCK

GIVING_WAY = 10  # nice: of a process beside a primary that must not be slowed down
LOWEST = 19
MOST_PASSES = 5
SESSION_ATTEMPTS = 5
SESSION_PAUSE_SECONDS = 0.11  # the kernel takes a change each tenth of a second from ordinary users

log = logging.getLogger(__name__)

_normal: list[int] = []  # the nice value before it was lowered; empty while it is not lowered
_normal_session: list[int] = []  # the same for the session


def lower(nice: int, *, seconds: float | None = None) -> None:
    """Lower this thread, and all it starts, to this priority, unless it is as low already.

    Nothing changes if this user could not raise it again. After `seconds` it is raised.
    """
    before = os.getpriority(os.PRIO_PROCESS, 0)
    if nice <= before:
        return
    lower_session(nice)
    if may_be_raised():
        _normal[:] = [before]
        os.setpriority(os.PRIO_PROCESS, 0, nice)
    else:
        log.warning(
            "the priority is not lowered: this user could not raise it again (needs CAP_SYS_NICE or `ulimit -e`)"
        )
    if seconds is not None:
        end = threading.Timer(seconds, restore)
        end.daemon = True
        end.start()


def restore() -> None:
    """Give every thread of this process and of its children the priority that it had before."""
    restore_session()
    for before in [*_normal]:
        for _ in range(MOST_PASSES):  # a thread that is born meanwhile has that of its parent
            if not _raise_all(before):
                break
    _normal.clear()


def may_be_raised() -> bool:
    """Whether this user may lower a priority and raise it again.

    It is tried on a thread that ends at once: where it cannot be raised, that thread alone stays low.
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
    """Raise every thread that is lower; returns whether there was any."""
    this, raised = psutil.Process(), False
    for process in [this, *this.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess, ProcessLookupError, PermissionError):
            for thread in process.threads():
                with suppress(ProcessLookupError):
                    if os.getpriority(os.PRIO_PROCESS, thread.id) > nice:
                        os.setpriority(os.PRIO_PROCESS, thread.id, nice)
                        raised = True
    return raised


def session_nice(pid: int | None = None) -> int | None:
    """The nice value of a session, by its leader; `None` if the kernel has no autogroup."""
    try:
        return int(_group(pid).read_text().rpartition(" ")[2])
    except (OSError, ValueError):
        return None


def lower_session(nice: int) -> None:
    """Lower the session that this process leads, unless it is as low already; the session of another leader is not changed."""
    before = session_nice()
    if before is not None and before < nice and os.getsid(0) == os.getpid():
        _normal_session[:] = [before]
        set_session_nice(nice)


def restore_session() -> None:
    """Give the session the nice value that it had before."""
    if all(set_session_nice(before) for before in _normal_session):
        _normal_session.clear()


def set_session_nice(nice: int, pid: int | None = None) -> bool:
    """Give a session this nice value, by its leader; false if that failed. True without autogroup."""
    if session_nice(pid) is None:
        return True
    for _ in range(SESSION_ATTEMPTS):
        try:
            _group(pid).write_text(str(nice))
        except BlockingIOError:
            SYSTEM_CLOCK.sleep(SESSION_PAUSE_SECONDS)
        except OSError as error:
            log.warning("the priority of a session was not changed: %s", error)
            return False
        else:
            return True
    log.warning(
        "the priority of a session was not changed: it is %s, not %s, after several attempts",
        session_nice(pid),
        nice,
    )
    return False


def _group(pid: int | None) -> Path:
    return Path(f"/proc/{pid or 'self'}/autogroup")
