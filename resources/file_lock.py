"""An exclusive lock on an open file: it ends with the process that holds it."""

import fcntl
from typing import IO


def try_lock(file: IO[str]) -> bool:
    """Lock the file without waiting; `False` if another process holds the lock."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
