"""Files that only their owner can read, whatever the umask was when they were written."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

UMASK = 0o077
_OTHERS = 0o077


def keep_private() -> None:
    """Let this process and its children create files that only their owner can read."""
    os.umask(UMASK)


def write_private(path: Path, text: str) -> None:
    """Replace a file in one step."""
    with _written_beside(path, text) as beside:
        beside.replace(path)


def write_private_once(path: Path, text: str) -> None:
    """Create a file in one step, unless it exists: of several writers at once the first one wins."""
    with _written_beside(path, text) as beside, suppress(FileExistsError):
        path.hardlink_to(beside)


@contextmanager
def _written_beside(path: Path, text: str) -> Iterator[Path]:
    """A file with the text next to the other one, under a name that no other writer has."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{uuid4().hex}.new")
    try:
        with os.fdopen(
            os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
        ) as out:
            out.write(text)
        yield beside
    finally:
        beside.unlink(missing_ok=True)


def tighten(folder: Path) -> int:
    """Take all rights of other users away, in and below a folder; return how many files and folders had some.

    What is below a folder that is already private is out of reach, and is not looked at. Links are not followed.
    """
    changed = _tighten(folder)
    if changed:
        for parent, folders, files in os.walk(folder):
            changed += sum(_tighten(Path(parent) / name) for name in (*folders, *files))
    return changed


def _tighten(path: Path) -> int:
    try:
        status = path.lstat()
        mode = status.st_mode
        is_own = status.st_uid == os.getuid()
        if stat.S_ISLNK(mode) or not is_own or not mode & _OTHERS:
            return 0
        path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
    except FileNotFoundError:  # a stream that runs removed it
        return 0
    return 1
