"""Which process holds the write lock of a SQLite file, and the end of one that was stopped with it.

A process that is stopped (SIGSTOP) in a write keeps the lock, and no other process can write until it continues
or dies: not even a takeover. If it is a replica of this host, it has lost its place by then anyway.
"""

import logging
from collections.abc import Iterable
from pathlib import Path

import psutil

from holdfast.resources.control_store.records import ReplicaRow
from holdfast.resources.process import ProcessHandle, find_process

LOCKS = Path("/proc/locks")

log = logging.getLogger(__name__)


def find_lock_holders(database: Path) -> set[int]:
    """The ids of the processes that hold a write lock on the database; in WAL mode it is on the file beside it."""
    files = (database, database.with_name(f"{database.name}-shm"))
    inodes = {str(file.stat().st_ino) for file in files if file.exists()}
    holders = set()
    for line in LOCKS.read_text().splitlines():
        # 1: POSIX  ADVISORY  WRITE 4711 08:01:131 120 120
        fields = line.split()
        waits = fields[1] == "->"
        if not waits and fields[3] == "WRITE" and fields[5].rsplit(":", 1)[-1] in inodes:
            holders.add(int(fields[4]))
    return holders


def end_stopped_holders(database: Path, replicas: Iterable[ReplicaRow]) -> list[int]:
    """Kill the processes that hold the write lock, are stopped, and belong to a replica of this host."""
    known = {process for row in replicas if (process := find_process(row)) is not None}
    ended = []
    for pid in find_lock_holders(database):
        if _is_stopped(pid) and _family(pid) & known:
            log.error("process %s was stopped while it held the lock of %s: killed", pid, database)
            ProcessHandle.of(pid).kill()
            ended.append(pid)
    return ended


def _is_stopped(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    except (psutil.NoSuchProcess, ValueError):
        return False


def _family(pid: int) -> set[ProcessHandle]:
    """The process and those that it was started by: Spark's data source is a process below the replica's."""
    try:
        process = psutil.Process(pid)
        return {ProcessHandle.of(member.pid) for member in (process, *process.parents())}
    except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
        return set()
