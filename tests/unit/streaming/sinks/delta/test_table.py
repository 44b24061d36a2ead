"""A table is created in a folder of its own."""

from pathlib import Path

import pytest
from deltalake import DeltaTable, Schema

from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.object_store.connection import S3Connection
from holdfast.streaming.sinks.delta.table import make_table
from tests.builders.delta_tables import SCHEMA


def connect() -> S3Connection:
    raise AssertionError("the table is local")


def make(folder: Path) -> DeltaTable:
    schema = Schema.from_arrow(SCHEMA)
    return make_table(str(folder), connect, schema=schema, partition_by=())


@pytest.mark.parametrize("foreign", ["input.jsonl", "data/other.parquet", "b/part-0.parquet"])
def test_no_table_is_created_among_other_files(tmp_path: Path, foreign: str) -> None:
    (tmp_path / foreign).parent.mkdir(exist_ok=True)
    (tmp_path / foreign).touch()
    with pytest.raises(PermanentError, match="it is not empty") as raised:
        make(tmp_path)
    assert "a path of its own" in raised.value.hint
    assert not (tmp_path / "_delta_log").exists()


def test_a_table_is_created_in_an_empty_folder_and_opened_later(tmp_path: Path) -> None:
    staged = tmp_path / "data" / "000000000007-p1-0a1b2c3d"
    staged.mkdir(parents=True)
    made = make(tmp_path)
    (tmp_path / "a_note.txt").touch()
    assert make(tmp_path).metadata().id == made.metadata().id
