"""Who holds the lock of a SQLite file, from what the kernel tells of locks: this process has the file open."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.resources.control_store.lock_holders import (
    _runs_holdfast,
    find_lock_holders,
    settle_lock,
)

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


@pytest.mark.parametrize(
    "command",
    [
        "python3.11 -m holdfast.streaming.replica --folder /data/x",
        "/venv/bin/python /venv/bin/holdfast restore words",
        "python -W ignore -X dev -u /venv/bin/holdfast up",
        "python -I -m holdfast.orchestration.services.supervisor --home /data",
        "python -m dagster code-server start -m holdfast.orchestration.definitions",
        "/opt/holdfast status",
    ],
)
def test_the_command_and_modules_of_holdfast_are_known(command: str) -> None:
    assert _runs_holdfast(command.split())


@pytest.mark.parametrize(
    "command",
    [
        "",
        "python",
        "python /usr/bin/backup /srv/holdfast",
        "python backup.py holdfast",
        "python -m tarfile -c x.tar /srv/holdfast",
        "python -m http.server -d holdfast.d",
        "python -c code /srv/holdfast",
        "python -W holdfast backup.py",
        "python -m holdfast_backup",
        "python -m dagster dev -m my.definitions -d /srv/holdfast",
        "holdfast-backup holdfast",
        "vim /usr/bin/holdfast",
    ],
)
def test_a_foreign_program_that_works_on_holdfast_is_none(command: str) -> None:
    """It would be killed when it is stopped with the lock."""
    assert not _runs_holdfast(command.split())
