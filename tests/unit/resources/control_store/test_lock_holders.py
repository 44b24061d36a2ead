"""Who holds the lock of a SQLite file, from what the kernel tells of locks: this process has the file open."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.resources.control_store.lock_holders import find_lock_holders, settle_lock

INIT = 1
"""A process that is always there, and has no database of a test open."""


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Path]:
    file = tmp_path / "control.db"
    with file.open("wb"):
        yield file


def write_locks(tmp_path: Path, *lines: str) -> Path:
    locks = tmp_path / "locks"
    locks.write_text("".join(f"{line}\n" for line in lines))
    return locks


def a_lock(database: Path, pid: int, *, kind: str = "POSIX  ADVISORY  WRITE") -> str:
    return f"1: {kind} {pid} 08:01:{database.stat().st_ino} 120 120"


def test_the_writer_of_the_file_is_found(tmp_path: Path, database: Path) -> None:
    locks = write_locks(tmp_path, a_lock(database, os.getpid()))
    assert find_lock_holders(database, locks=locks) == {os.getpid()}
    assert settle_lock(database, locks=locks) == f"process {os.getpid()}"


@pytest.mark.parametrize("kind", ["POSIX  ADVISORY  READ", "-> POSIX  ADVISORY  WRITE"])
def test_a_reader_and_one_that_waits_hold_no_write_lock(
    tmp_path: Path, database: Path, kind: str
) -> None:
    locks = write_locks(tmp_path, a_lock(database, os.getpid(), kind=kind))
    assert find_lock_holders(database, locks=locks) == set()


def test_a_lock_on_the_file_of_the_same_number_on_another_disk_is_not_of_the_database(
    tmp_path: Path, database: Path
) -> None:
    locks = write_locks(tmp_path, a_lock(database, INIT))
    assert find_lock_holders(database, locks=locks) == set()
    assert settle_lock(database, locks=locks) == ""


def test_a_lock_without_a_process_or_of_one_that_is_gone_has_no_holder(
    tmp_path: Path, database: Path
) -> None:
    gone = 2**22 + 1  # above the largest id
    lines = [a_lock(database, -1, kind="OFDLCK ADVISORY  WRITE"), a_lock(database, gone), "", "?"]
    assert find_lock_holders(database, locks=write_locks(tmp_path, *lines)) == set()


def test_where_the_kernel_tells_no_locks_or_the_file_is_away_there_is_no_holder(
    tmp_path: Path, database: Path
) -> None:
    assert settle_lock(database, locks=tmp_path / "hidden") == ""
    locks = write_locks(tmp_path, a_lock(database, os.getpid()))
    database.unlink()
    assert settle_lock(database, locks=locks) == ""
