"""The input files of a soak are read by the product as by the oracle, and its broken ones by neither."""

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import fs

from holdfast.configs.declarations.sources import FilesSource
from holdfast.streaming.sources.base import Split
from holdfast.streaming.sources.validation import RecordValidator
from tests.chaos.soak_input import (
    BROKEN_LINES,
    BROKEN_POSITIONS,
    COLUMNS,
    FILE_ROWS,
    WrittenFiles,
    add_file,
    build_lines,
    find_wrong_dead_letters,
    write_broken_file,
)
from tests.live.faults import arm, disarm

SCHEMA = pa.schema([("event_time", pa.timestamp("us", "UTC")), ("key", pa.int32())])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "input").mkdir()
    return tmp_path / "input"


def validator(folder: Path) -> RecordValidator:
    declared = FilesSource(kind="files", path=str(folder), format="jsonl", schema=COLUMNS)
    return RecordValidator(declared, SCHEMA)


def read_as_oracle(folder: Path, name: str) -> pd.DataFrame:
    batches = list(WrittenFiles(folder).read(Split(input={"name": name})))
    return pa.Table.from_batches(batches).to_pandas() if batches else pd.DataFrame()


def test_product_and_oracle_read_the_same_rows(folder: Path) -> None:
    add_file(folder, "7.jsonl", build_lines(7) + BROKEN_LINES[0] + "\n")
    path, files = str(folder / "7.jsonl"), fs.LocalFileSystem()
    validated = validator(folder).validate(files, path)
    assert (validated.rows, validated.aside) == (FILE_ROWS, (FILE_ROWS + 1,))
    product = pa.Table.from_batches(
        validator(folder).read(files, path, validated.aside)
    ).to_pandas()
    oracle = read_as_oracle(folder, "7.jsonl")
    assert product["key"].tolist() == oracle["key"].tolist()
    assert (product["event_time"] == oracle["event_time"]).all()


def test_the_last_lines_of_a_broken_file_are_no_rows(folder: Path) -> None:
    name = write_broken_file(folder, 3)
    validated = validator(folder).validate(fs.LocalFileSystem(), str(folder / name))
    assert (validated.rows, validated.aside) == (FILE_ROWS, tuple(BROKEN_POSITIONS))
    assert len(read_as_oracle(folder, name)) == FILE_ROWS


def test_each_broken_line_is_a_dead_letter_once() -> None:
    exact = [("a", line) for line in BROKEN_POSITIONS]

    def wrong(rows: list[tuple[str, int]]) -> list[str]:
        return find_wrong_dead_letters(pd.DataFrame(rows, columns=["file", "position"]), ["a"])

    assert wrong(exact) == []
    assert wrong(exact[1:]) == ["a:61 is missing"]
    assert wrong([*exact, ("a", 62)]) == ["a:62 is once too often"]
    assert wrong([*exact, ("b", 1)]) == ["b:1 is once too often"]


def test_a_point_that_was_not_reached_differs_from_one_that_killed(tmp_path: Path) -> None:
    arm(tmp_path, "before staging", 3, replica="words-1")
    assert disarm(tmp_path, "words-1")
    assert not disarm(tmp_path, "words-1")
