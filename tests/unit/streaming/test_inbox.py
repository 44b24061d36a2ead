"""Prefetched splits: whole or absent, read without copying, gone when pruned."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from holdfast.streaming.inbox import BLOCK_BYTES, Inbox

SCHEMA = pa.schema([("n", pa.int64()), ("word", pa.string())])


def rows(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(numbers), pa.array([f"w{n}" for n in numbers])], schema=SCHEMA)


def numbers(batches: Iterator[pa.RecordBatch] | None) -> list[int] | None:
    return None if batches is None else [n for batch in batches for n in batch["n"].to_pylist()]


def test_a_split_comes_back_batch_by_batch(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path)
    size = inbox.write(7, 1, SCHEMA, [rows(1, 2), rows(3)])
    file = tmp_path / "inbox/000000000007/1.arrow"
    assert file.stat().st_size == size
    batches = inbox.read(7, 1)
    assert batches is not None
    assert list(batches) == [rows(1, 2), rows(3)]


def test_what_is_here_counts_in_blocks_of_the_disk(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path)
    assert inbox.count_bytes() == 0
    inbox.write(7, 0, SCHEMA, [rows(1)])
    assert inbox.count_bytes() == 3 * BLOCK_BYTES, "two folders and a small file"
    inbox.write(7, 1, SCHEMA, [rows(*range(1000))])
    assert inbox.count_bytes() > 4 * BLOCK_BYTES
    inbox.prune(7)
    assert inbox.count_bytes() == BLOCK_BYTES


def test_a_split_without_rows_is_there_and_empty(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path)
    inbox.write(0, 0, SCHEMA, [])
    assert numbers(inbox.read(0, 0)) == []


def test_what_is_not_there_is_none(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path)
    assert inbox.read(0, 0) is None
    inbox.write(0, 0, SCHEMA, [rows(1)])
    assert inbox.read(0, 1) is None
    assert inbox.read(1, 0) is None


def test_a_file_that_is_not_whole_is_as_good_as_none(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path)
    inbox.write(0, 0, SCHEMA, [rows(1)])
    file = tmp_path / "inbox/000000000000/0.arrow"
    file.write_bytes(file.read_bytes()[:100])
    assert inbox.read(0, 0) is None
    file.write_bytes(b"")
    assert inbox.read(0, 0) is None


def test_a_write_cut_short_leaves_nothing(tmp_path: Path) -> None:
    def breaks() -> Iterator[pa.RecordBatch]:
        yield rows(1)
        raise RuntimeError("the source is gone")

    inbox = Inbox(tmp_path)
    with pytest.raises(RuntimeError):
        inbox.write(0, 0, SCHEMA, breaks())
    assert inbox.read(0, 0) is None
    assert list((tmp_path / "inbox/000000000000").iterdir()) == []


def test_an_epoch_is_here_when_all_its_splits_are(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path)
    inbox.write(3, 0, SCHEMA, [rows(1)])
    assert inbox.has(3, 1)
    assert not inbox.has(3, 2)
    assert inbox.has(4, 0)


def test_pruning_takes_what_is_old_and_disturbs_no_reader(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path)
    inbox.prune(5)
    for epoch in (8, 9, 10, 11):
        inbox.write(epoch, 0, SCHEMA, [rows(epoch)])
    reading = inbox.read(9, 0)
    inbox.prune(9)
    assert inbox.epochs() == [10, 11]
    assert numbers(reading) == [9]
    assert inbox.read(9, 0) is None


def test_sparks_workers_import_little_for_it() -> None:
    heavy = "{'pyspark', 'sqlalchemy', 'boto3', 'pydantic'}"
    code = f"import sys, holdfast.streaming.inbox; print(sorted({heavy} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_writer_that_was_overtaken_does_not_touch_what_the_other_has_shown(
    tmp_path: Path,
) -> None:
    inbox = Inbox(tmp_path)

    def overtaken() -> Iterator[pa.RecordBatch]:
        yield rows(1)
        inbox.write(0, 0, SCHEMA, [rows(1), rows(2)])
        raise RuntimeError("stopped in the middle")

    with pytest.raises(RuntimeError, match="stopped"):
        inbox.write(0, 0, SCHEMA, overtaken())
    assert numbers(inbox.read(0, 0)) == [1, 2]
    assert [file.name for file in (tmp_path / "inbox/000000000000").iterdir()] == ["0.arrow"]
