"""The dead-letter table: each epoch's rejected records once, in files that retention recognises."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyarrow import fs

from holdfast.configs.declarations.sources import FilesSource as FilesDeclaration
from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.observation.orphans import STAGED_FOLDER
from holdfast.orchestration.playbooks.restore.tables import Tables
from holdfast.resources.control_store.store import ControlStore
from holdfast.streaming.sinks.dead_letters import DeadLetterTable
from holdfast.streaming.sinks.delta.rollback import RollbackPoint, TableRollback
from holdfast.streaming.sinks.delta.table import make_dead_letters
from holdfast.streaming.sinks.output import StreamOutput
from holdfast.streaming.sources.files import FilesSource
from holdfast.streaming.sources.validation import RecordValidator
from tests.builders.control_rows import a_proposal
from tests.builders.replicas import a_spec

NAME = "words"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ControlStore]:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as opened:
        yield opened


@pytest.fixture
def letters(tmp_path: Path, store: ControlStore) -> DeadLetterTable:
    """Two epochs, each with the second line of a file rejected."""
    folder = tmp_path / "in"
    folder.mkdir()
    for epoch in range(2):
        file = folder / f"{epoch}.jsonl"
        file.write_text('{"id": 1}\nnonsense\n')
        entry = {"size": file.stat().st_size, "changed_ns": file.stat().st_mtime_ns}
        named = {"name": file.name, **entry, "rows": 1, "aside": [2]}
        proposal = replace(a_proposal(epoch, stream=NAME), rows=1, input={"files": [named]})
        store.epochs.propose(proposal)
    declared = FilesDeclaration.model_validate(
        {
            "kind": "files",
            "path": str(folder),
            "format": "jsonl",
            "schema": "id bigint",
            "dead_letters": {},
        }
    )
    schema = pa.schema([("id", pa.int64())])
    validator = RecordValidator(declared, schema)
    source = FilesSource(declared, schema, fs.LocalFileSystem(), str(folder), set, validator)
    changes = {"dead_letters": str(tmp_path / "aside")}
    spec = a_spec(tmp_path / "home", store).model_copy(update=changes)
    return DeadLetterTable(spec, store, source)


def table_of(letters: DeadLetterTable) -> DeltaTable:
    return DeltaTable(letters.spec.dead_letters)


def test_an_epoch_is_written_once_to_a_staging_folder(letters: DeadLetterTable) -> None:
    for epoch in (0, 0, 1):
        letters.send(epoch)
    rows = table_of(letters).to_pyarrow_table().sort_by("epoch").to_pylist()
    assert [(row["epoch"], row["record"]) for row in rows] == [(0, "nonsense"), (1, "nonsense")]
    folders = list((Path(letters.spec.dead_letters) / "data").iterdir())
    assert len(folders) == 2
    assert all(STAGED_FOLDER.fullmatch(folder.name) for folder in folders)


def test_the_control_store_knows_the_newest_table_as_the_streams(
    letters: DeadLetterTable, tmp_path: Path
) -> None:
    letters.send(0)
    spec = letters.spec.model_copy(update={"dead_letters": str(tmp_path / "elsewhere")})
    moved = replace(letters, spec=spec, _table=None)
    for table, is_own in ((moved, False), (letters, True)):
        assert owns(table) is is_own
    moved.send(1)
    assert (owns(moved), owns(letters)) == (True, False)


def owns(letters: DeadLetterTable) -> bool:
    path = letters.spec.dead_letters
    output = StreamOutput.of_dead_letters(letters.store, NAME, path, letters.spec.connect)
    return DeltaTable.is_deltatable(path) and output.is_own(DeltaTable(path))


def test_its_rows_can_be_rolled_back(letters: DeadLetterTable) -> None:
    for epoch in range(2):
        letters.send(epoch)
    rollback = TableRollback(letters.spec.dead_letters, letters.spec.connect)
    rollback.roll_back_dead_letters(RollbackPoint(stream=NAME, history=1, epoch=0))
    assert table_of(letters).to_pyarrow_table()["epoch"].to_pylist() == [0]


def successor_of(letters: DeadLetterTable) -> DeadLetterTable:
    return DeadLetterTable(letters.spec, letters.store, letters._source)


def test_a_table_that_is_away_is_waited_for(letters: DeadLetterTable, tmp_path: Path) -> None:
    letters.send(0)
    table = Path(letters.spec.dead_letters)
    table.rename(tmp_path / "unmounted")
    successor = successor_of(letters)
    with pytest.raises(TransientError, match="words/dead_letters is away"):
        successor.send(1)
    assert not table.exists()
    (tmp_path / "unmounted").rename(table)
    successor.send(1)
    assert sorted(table_of(letters).to_pyarrow_table()["epoch"].to_pylist()) == [0, 1]


def test_another_table_is_refused(letters: DeadLetterTable) -> None:
    letters.send(0)
    shutil.rmtree(letters.spec.dead_letters)
    make_dead_letters(letters.spec.dead_letters, letters.spec.connect)
    with pytest.raises(PermanentError, match="is not the table of words/dead_letters"):
        successor_of(letters).send(1)


def test_a_restore_does_not_create_one_that_is_away(
    letters: DeadLetterTable, tmp_path: Path
) -> None:
    letters.send(0)
    path, connect = letters.spec.dead_letters, letters.spec.connect
    place = StreamOutput.of_dead_letters(letters.store, NAME, path, connect)
    tables = Tables(
        stream=NAME, output=None, dead_letters=TableRollback(path, connect), letters=place
    )
    Path(path).rename(tmp_path / "unmounted")
    with pytest.raises(TransientError, match="is away"):
        tables.roll(RollbackPoint(stream=NAME, history=1, epoch=0))
    assert not Path(path).exists()
