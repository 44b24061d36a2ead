"""Which process holds the write lock of a SQLite file, and the end of one that was stopped with it.

A process that is stopped (SIGSTOP) in a write keeps the lock, and no other process can write until it continues
or dies: not even a takeover. A process of Holdfast may die at any moment: a replica has lost its place by then anyway,
and the next run continues what a command or a run of Dagster has left. Other processes are only named.
"""

import logging
import os
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import suppress
from pathlib import Path

import psutil

LOCKS = Path("/proc/locks")
_OPTIONS_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")

log = logging.getLogger(__name__)


def find_lock_holders(database: Path, *, locks: Path = LOCKS) -> set[int]:
    """The ids of the processes that hold a write lock on the database; in WAL mode it is on the file beside it.

    Only processes that are seen to have it open: the number of a file is that of another file on another disk.
    """
    files = set(_identify([database, database.with_name(f"{database.name}-shm")]))
    inodes = {inode for _, inode in files}
    try:
        writers = {_writer(line, inodes) for line in locks.read_text().splitlines()}
    except OSError:
        return set()
    return {pid for pid in writers if pid is not None and not files.isdisjoint(_open_files(pid))}


def settle_lock(database: Path, *, locks: Path = LOCKS) -> str:
    """Kill processes of Holdfast that were stopped with the write lock; returns all that hold it, for a message."""
    holders = []
    for pid in sorted(find_lock_holders(database, locks=locks)):
        with suppress(psutil.Error, OSError):
            holders.append(f"process {pid}{_settle(psutil.Process(pid), database)}")
    return ", ".join(holders)


def _writer(line: str, inodes: Set[int]) -> int | None:
    """The process that holds this write lock on one of the files; `None` if it is another lock, or has no process."""
    # 1: POSIX  ADVISORY  WRITE 4711 08:01:131 120 120
    match line.split():
        case [_, _, _, "WRITE", pid, place, *_] if pid.isdecimal():
            inode = place.rpartition(":")[2]
            return int(pid) if inode.isdecimal() and int(inode) in inodes else None
        case _:
            return None


def _open_files(pid: int) -> Iterator[tuple[int, int]]:
    """The files that a process has open, as far as this user may see them."""
    with suppress(OSError):
        yield from _identify(Path(f"/proc/{pid}/fd").iterdir())


def _identify(files: Iterable[Path]) -> Iterator[tuple[int, int]]:
    """The device and number of each file that is there."""
    for file in files:
        with suppress(OSError):
            stat = file.stat()
            yield stat.st_dev, stat.st_ino


def _settle(holder: psutil.Process, database: Path) -> str:
    if holder.status() != psutil.STATUS_STOPPED:
        return ""
    if not _is_own(holder):
        return ", which is stopped"
    log.error("process %s was stopped with the lock of %s: killed", holder.pid, database)
    _kill(holder)
    return ", which was stopped and is killed now"


def _is_own(process: psutil.Process) -> bool:
    """Whether it is a Holdfast of this user, or was started by one: Spark's data source and Dagster's runs are."""
    if process.uids().real != os.getuid():
        return False
    return any(_runs_holdfast(member.cmdline()) for member in (process, *process.parents()))


def _runs_holdfast(command: Sequence[str]) -> bool:
    """Whether this is the command `holdfast`, one of its modules, or a Dagster that serves one: what it works on is no sign."""
    if not command:
        return False
    if not Path(command[0]).name.startswith("python"):
        return Path(command[0]).name == "holdfast"
    match _skip_options(command[1:]):
        case ["-m", module, *arguments]:
            serves = _is_module(module, of="dagster") and any(map(_is_module, arguments))
            return _is_module(module) or serves
        case [script, *_]:
            return Path(script).name == "holdfast"
        case _:
            return False


def _skip_options(arguments: Sequence[str]) -> Sequence[str]:
    """The arguments of Python from its program on: `-m` and a module, `-c` and code, or a script."""
    for number, argument in enumerate(arguments):
        has_value = number > 0 and arguments[number - 1] in _OPTIONS_WITH_VALUE
        if argument in ("-m", "-c") or not (has_value or argument.startswith("-")):
            return arguments[number:]
    return ()


def _is_module(name: str, of: str = "holdfast") -> bool:
    return name == of or name.startswith(f"{of}.")


def _kill(process: psutil.Process) -> None:
    """Kill a process and those below it, but no replica that it has started: that one has a session of its own."""
    session = os.getsid(process.pid)
    family = [*process.children(recursive=True), process]
    members = [member for member in family if os.getsid(member.pid) == session]
    for member in members:
        with suppress(psutil.NoSuchProcess):
            member.kill()
    psutil.wait_procs(members, timeout=5)
