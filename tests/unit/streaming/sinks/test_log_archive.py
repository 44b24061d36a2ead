"""Old commits of a table are packed, so that the folder of its log stays small, and are put back for a rollback."""

import os
from pathlib import Path

import pytest
from deltalake import DeltaTable

from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.object_store.connection import S3Connection
from holdfast.streaming.sinks.lineage import version_after
from holdfast.streaming.sinks.log_archive import FOLDER, pack_log, read_packed_commits
from holdfast.streaming.sinks.rollback import RollbackPoint, TableRollback
from tests.builders.delta_tables import a_commit, a_table, words

STREAM = "clicks"
EPOCHS = 12
LATER = 4e9


def no_s3() -> S3Connection:
    raise AssertionError("the table is on the local disk")


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A table of twelve epochs with checkpoints at versions 4 and 8."""
    path = str(tmp_path / "table")
    a_table(path)
    for epoch in range(EPOCHS):
        a_commit(path, epoch, words(2))
        if epoch in (3, 7):
            DeltaTable(path).create_checkpoint()
    return path


def pack(path: str, *, before: float = 0.0) -> int:
    return pack_log(path, no_s3, before=before, kept_commits=3, at_once=1)


def commits_in(path: str) -> list[str]:
    return sorted(file.name[17:20] for file in (Path(path) / "_delta_log").glob("*.json"))


def test_commits_before_a_checkpoint_are_packed_and_the_table_stays_as_it_is(path: str) -> None:
    before = DeltaTable(path)
    assert pack(path) == 9  # versions 0 to 7, and the checkpoint at 4
    assert commits_in(path) == ["008", "009", "010", "011", "012"]
    after = DeltaTable(path)
    assert after.version() == before.version()
    assert sorted(after.file_uris()) == sorted(before.file_uris())
    assert pack(path) == 0
    assert len(list(read_packed_commits(path, no_s3))) == 8


def test_a_table_without_a_checkpoint_is_left_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    a_table(path)
    a_commit(path, 0, words(2))
    assert pack(path) == 0


def test_a_rollback_puts_packed_commits_back(path: str) -> None:
    pack(path)
    with pytest.raises(PermanentError, match="does not reach back"):
        version_after(DeltaTable(path), STREAM, 1)
    rollback = TableRollback(path, no_s3)
    assert rollback.version(STREAM, 1) == 2
    rollback.roll_back(RollbackPoint(stream=STREAM, history=1, epoch=1))
    assert len(DeltaTable(path).file_uris()) == 2


def test_packs_that_no_version_in_the_window_needs_are_deleted(path: str) -> None:
    pack(path)
    for epoch in range(EPOCHS, 2 * EPOCHS):
        a_commit(path, epoch, words(2))
    DeltaTable(path).create_checkpoint()
    a_commit(path, 2 * EPOCHS, words(2))
    first, *_ = packs = sorted((Path(path) / FOLDER).iterdir())
    assert pack_log(path, no_s3, before=0.0, kept_commits=1, at_once=1) > 0
    assert len(packs) == 1
    second = sorted((Path(path) / FOLDER).iterdir())[1]
    os.utime(first, (1, 1))
    pack(path, before=2.0)
    assert (
        first.exists()
    )  # versions of the second pack up to its first checkpoint are read from here
    os.utime(second, (1, 1))
    pack(path, before=2.0)
    assert not first.exists()
    assert second.exists()
