"""Bad records are set aside with their place and the reason; good ones are read as ever."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings, strategies as st
from pyarrow import fs, parquet

from holdfast.configs.declarations.sources import FilesSource as FilesDeclaration
from holdfast.streaming.sources import formats
from holdfast.streaming.sources.validation import RecordValidator, RejectedRecord

SCHEMA = pa.schema(
    [("id", pa.int64()), ("at", pa.timestamp("us", tz="UTC")), ("word", pa.string())]
)
GOOD = {
    "csv": "{id},2026-01-01T00:00:00.5Z,w{id}",
    "jsonl": '{{"id": {id}, "at": "2026-01-01T00:00:00.5Z", "word": "w{id}"}}',
}


def no_thirteen(batch: pa.RecordBatch) -> pa.StringArray:
    unlucky = pc.equal(batch.column("id"), 13)
    return pc.if_else(unlucky, "unlucky", pa.scalar(None, pa.string()))


def validator(kind: str, *, header: bool = False, rules: bool = False) -> RecordValidator:
    declared = FilesDeclaration.model_validate(
        {"kind": "files", "path": "in", "format": kind, "schema": "id bigint", "csv_header": header}
    )
    return RecordValidator(declared, SCHEMA, no_thirteen if rules else None)


def validated(path: Path, by: RecordValidator) -> tuple[list[int], list[RejectedRecord]]:
    """What is read, and what is set aside: decided first, and then read by that decision."""
    files = fs.LocalFileSystem()
    decided = by.validate(files, str(path))
    batches = list(by.read(files, str(path), decided.aside))
    ids = [row["id"] for batch in batches for row in batch.to_pylist()]
    aside = list(by.read_rejected(files, str(path), decided.aside))
    assert decided.rows == len(ids)
    assert decided.aside == tuple(record.position for record in aside)
    return ids, aside


@pytest.mark.parametrize(
    ("kind", "bad"),
    [
        (
            "csv",
            ["x,2026-01-01T00:00:00Z,w", "1,yesterday,w", "1,2", "1,2026-01-01T00:00:00Z,w,more"],
        ),
        (
            "jsonl",
            ["{", "nothing", '{"id": "x"}', '{"id": 1, "at": "soon"}', '{"id": 1}{"id": 2}', "[1]"],
        ),
    ],
)
def test_each_bad_line_is_set_aside_with_its_number_and_itself(
    tmp_path: Path, kind: str, bad: list[str]
) -> None:
    lines = [GOOD[kind].format(id=0)]
    for number, line in enumerate(bad, start=1):
        lines += [line, "", GOOD[kind].format(id=number)]
    file = tmp_path / "a"
    file.write_text("\n".join(lines))
    ids, aside = validated(file, validator(kind))
    assert ids == list(range(len(bad) + 1))
    assert [(record.position, record.record) for record in aside] == [
        (2 + 3 * at, line) for at, line in enumerate(bad)
    ]
    assert all(record.reason for record in aside)


def test_rules_object_to_rows_that_can_be_read(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("\n".join(GOOD["csv"].format(id=number) for number in (12, 13, 14)))
    ids, aside = validated(file, validator("csv", rules=True))
    assert ids == [12, 14]
    assert aside == [RejectedRecord(position=2, reason="unlucky", record=GOOD["csv"].format(id=13))]


def test_rules_hold_for_parquet_too(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"id": list(range(20))}), tmp_path / "a", row_group_size=7)
    ids, aside = validated(tmp_path / "a", validator("parquet", rules=True))
    assert ids == [number for number in range(20) if number != 13]
    assert [(record.position, record.reason) for record in aside] == [(14, "unlucky")]
    assert "13" in aside[0].record


def test_a_header_names_the_columns_and_is_no_record(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("\ufeffword,id\nw,1\nw,x\nw,3\n")
    ids, aside = validated(file, validator("csv", header=True))
    assert ids == [1, 3]
    assert [record.position for record in aside] == [3]


def test_an_empty_file_has_neither(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    for kind in ("csv", "jsonl"):
        assert validated(tmp_path / "a", validator(kind, header=True)) == ([], [])


@settings(deadline=None, max_examples=60)
@given(
    lines=st.lists(st.one_of(st.integers(0, 99), st.sampled_from(["x", "{", "1,2"])), max_size=40)
)
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_whatever_stands_where_each_line_is_read_or_set_aside(
    tmp_path_factory: pytest.TempPathFactory, kind: str, lines: list[int | str]
) -> None:
    file = tmp_path_factory.mktemp("validated") / "a"
    text = [GOOD[kind].format(id=line) if isinstance(line, int) else line for line in lines]
    file.write_text("".join(f"{line}\n" for line in text))
    ids, aside = validated(file, validator(kind))
    assert ids == [line for line in lines if isinstance(line, int)]
    assert [record.position for record in aside] == [
        at for at, line in enumerate(lines, start=1) if isinstance(line, str)
    ]


def test_blocks_and_buffers_end_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "BLOCK_BYTES", 37)
    monkeypatch.setattr(formats, "BLOCK_LINES", 3)
    file = tmp_path / "a"
    file.write_text(
        "\n".join(GOOD["csv"].format(id=number) if number % 5 else "bad" for number in range(50))
    )
    ids, aside = validated(file, validator("csv"))
    assert ids == [number for number in range(50) if number % 5]
    assert [record.position for record in aside] == list(range(1, 51, 5))


def test_what_was_decided_stands_even_if_the_rules_have_changed(tmp_path: Path) -> None:
    file, files = tmp_path / "a", fs.LocalFileSystem()
    file.write_text("\n".join(GOOD["csv"].format(id=number) for number in (12, 13, 14)))
    decided = validator("csv", rules=True).validate(files, str(file))
    lenient = validator("csv")
    [batch] = lenient.read(files, str(file), decided.aside)
    assert batch.column("id").to_pylist() == [12, 14]
    [aside] = lenient.read_rejected(files, str(file), decided.aside)
    assert aside.reason == "rejected when its epoch was decided"


def test_good_rows_stay_together_however_many_bad_ones_stand_between_them(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("\n".join(GOOD["jsonl"].format(id=n) if n % 3 else "{" for n in range(300)))
    by, files = validator("jsonl"), fs.LocalFileSystem()
    assert len(list(by.read(files, str(file), by.validate(files, str(file)).aside))) == 1
