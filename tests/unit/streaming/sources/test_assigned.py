"""Which listed files an epoch has: asked from an index, whatever the length of the epoch log."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.sql.base import Executable

from holdfast.resources.control_store.database import Database
from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.records import EpochProposal, LedgerEntry
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.control_store.upgrade import upgrade_schema
from holdfast.streaming.sources.assigned import check_assigned, find_taken
from holdfast.streaming.sources.folder import ListedFile


class CountingDatabase(Database):
    """A database that counts the rows it has read."""

    rows_read = 0

    def fetch(
        self, statement: Executable, values: Mapping[str, Any] | None = None
    ) -> Sequence[sa.RowMapping]:
        rows = super().fetch(statement, values)
        self.rows_read += len(rows)
        return rows


@pytest.fixture
def database(tmp_path: Path) -> Iterator[CountingDatabase]:
    opened = CountingDatabase(f"sqlite:///{tmp_path}/control.db")
    upgrade_schema(opened)
    yield opened
    opened.close()


def decide(store: ControlStore, first: int, last: int) -> None:
    for epoch in range(first, last):
        store.epochs.propose(
            EpochProposal(
                stream="words",
                epoch=epoch,
                start={},
                end={},
                input={"files": [{"name": f"{epoch}.jsonl", "size": 7, "changed_ns": 5}]},
                rows=1,
                token=1,
                proposer="r1",
            )
        )


def listed(*names: str, size: int = 7) -> list[ListedFile]:
    return [ListedFile(name, size, 5) for name in names]


def test_the_first_question_reads_as_many_rows_as_files_are_listed_not_the_epoch_log(
    database: CountingDatabase,
) -> None:
    store = ControlStore(database)
    decide(store, 0, 20)
    files = listed("3.jsonl", "19.jsonl", "new.jsonl")
    counts = []
    for length in (20, 200):
        decide(store, 20, length)
        before = database.rows_read
        assert check_assigned(store, "words", "r1", files) == {"3.jsonl", "19.jsonl"}
        counts.append(database.rows_read - before)
    assert counts == [2, 2]


def test_a_used_name_with_other_content_opens_one_incident_and_is_not_read(
    database: CountingDatabase,
) -> None:
    store = ControlStore(database)
    decide(store, 0, 3)
    for _ in range(2):
        assert check_assigned(store, "words", "r1", listed("1.jsonl", size=8)) == {"1.jsonl"}
    (incident,) = store.incidents.of("words")
    assert (incident.kind, incident.detail["epoch"]) == (IncidentKind.INPUT_REUSED, 1)
    assert incident.detail["files"] == ["1.jsonl"]


def test_a_file_that_is_as_it_was_opens_no_incident(database: CountingDatabase) -> None:
    store = ControlStore(database)
    decide(store, 0, 3)
    assert check_assigned(store, "words", "r1", listed("1.jsonl")) == {"1.jsonl"}
    assert store.incidents.of("words") == []


def test_a_file_that_is_older_than_a_forgotten_one_is_reported_and_not_read(
    database: CountingDatabase,
) -> None:
    store = ControlStore(database)
    decide(store, 0, 3)
    store.ledger.commit(
        LedgerEntry(stream="words", epoch=0, replica="r1", token=1, rows=1, digest="d")
    )
    store.retention.prune_epochs("words", before=2)
    assert store.retention.prune_file_names("words", changed_before_ns=6, listed={"1.jsonl"}) == 1
    new = ListedFile("new.jsonl", 7, 6)
    for _ in range(2):
        files = [*listed("0.jsonl", "1.jsonl"), new]
        assert check_assigned(store, "words", "r1", files) == {"0.jsonl", "1.jsonl"}
    assert find_taken(store, "words", [new]) == set()
    (incident,) = store.incidents.of("words")
    assert (incident.kind, incident.detail["files"]) == (IncidentKind.INPUT_REAPPEARED, ["0.jsonl"])
