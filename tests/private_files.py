"""What other users of the host may read, below a folder."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

OTHERS = 0o077


@contextmanager
def usual_umask() -> Iterator[None]:
    """Start processes as a usual shell does, whose files everybody may read."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


def open_to_others(folder: Path) -> list[str]:
    """The files and folders, from this folder on, to which others than their owner have rights; no links."""
    found = [] if is_private(folder) else [str(folder)]
    for parent, folders, files in os.walk(folder):
        for path in (Path(parent) / name for name in (*folders, *files)):
            with suppress(FileNotFoundError):  # a process that runs removed it
                found += [] if is_private(path) else [str(path)]
    return found


def is_private(path: Path) -> bool:
    mode = path.lstat().st_mode
    return stat.S_ISLNK(mode) or not mode & OTHERS
