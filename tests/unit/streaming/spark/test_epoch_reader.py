"""The reader that Spark asks for epochs, without Spark: its offsets carry the digest of what was decided."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StructField, StructType

from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.control_store.epoch_records import digest_input
from holdfast.resources.control_store.records import Epoch, EpochProposal
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.schema import epochs
from holdfast.resources.control_store.store import ControlStore
from holdfast.streaming.gate import Gate, GateState
from holdfast.streaming.spark.checkpoint import read_input_digest
from holdfast.streaming.spark.epoch_source import EpochReader
from tests.builders.control_rows import a_proposal, lose
from tests.builders.replicas import a_spec
from tests.fakes.clocks import SteppedClock

NAME = "words"
SCHEMA = StructType([StructField("offset", LongType())])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ControlStore]:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as opened:
        yield opened


@pytest.fixture
def reader(tmp_path: Path, store: ControlStore) -> Iterator[EpochReader]:
    spec = a_spec(tmp_path, store)
    Gate(spec.folder).set(GateState(open=True, token=1))
    opened = EpochReader(spec, SCHEMA)
    yield opened
    opened.stop()


def a_rate_proposal(rows: int = 10) -> EpochProposal:
    end = {"origin": 0.0, "rows": rows}
    return replace(a_proposal(0), start=None, end=end, input={"first": 0, "rows": rows}, rows=rows)


def test_an_offset_names_the_input_that_was_decided(
    reader: EpochReader, store: ControlStore, tmp_path: Path
) -> None:
    decided = store.epochs.propose(a_rate_proposal())
    offset = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert offset == {"epoch": 0, "input": digest_input(decided)}
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text(f'v1\n{{"conf":{{}}}}\n{json.dumps(offset)}')
    assert read_input_digest(tmp_path, 0) == digest_input(decided)


def test_a_checkpoint_of_an_older_version_has_no_digest(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text('v1\n{"conf":{}}\n{"epoch": 0}')
    assert read_input_digest(tmp_path, 0) is None
    assert read_input_digest(tmp_path, 1) is None


def test_an_epoch_that_was_decided_again_is_not_read_under_the_offset_of_the_first_decision(
    reader: EpochReader, store: ControlStore
) -> None:
    start = reader.initialOffset()
    store.epochs.propose(a_rate_proposal())
    planned = reader.latestOffset(start, ReadAllAvailable())
    with store._database.write() as connection:  # the control store loses its last commit
        connection.exec_driver_sql("DELETE FROM epochs")
    store.epochs.propose(a_rate_proposal(rows=20))
    with pytest.raises(PermanentError, match="was planned with other input"):
        reader.partitions(start, planned)


def test_what_a_source_notes_beside_its_position_does_not_change_the_digest() -> None:
    file = {"name": "a.jsonl", "size": 1, "changed_ns": 1, "rows": 1}
    epoch = Epoch(
        stream="words",
        epoch=0,
        start={},
        end={"files": 1},
        input={"files": [file]},
        rows=1,
        token=1,
        proposer="r1",
        decided_at=0.0,
    )
    noted = replace(
        epoch,
        start={"taken_until_ns": 3, "mount": "/mnt"},
        end={"files": 1, "taken_until_ns": 4, "mount": "/mnt"},
        input={"files": [{**file, "mount": "/mnt"}]},
    )
    assert digest_input(noted) == digest_input(epoch)
    assert digest_input(replace(noted, end={"files": 2})) != digest_input(epoch)


def input_incidents(store: ControlStore) -> list[object]:
    return [
        incident.detail["epoch"]
        for incident in store.incidents.of(NAME)
        if incident.kind == "input_differs"
    ]


def test_an_epoch_that_was_decided_again_is_not_continued_from(
    reader: EpochReader, store: ControlStore
) -> None:
    first = reader.initialOffset()
    store.epochs.propose(a_rate_proposal())
    read = reader.latestOffset(first, ReadAllAvailable())
    lose(store, epochs, 0)
    again = store.epochs.propose(a_rate_proposal(rows=20))
    store.epochs.propose(replace(a_rate_proposal(), epoch=1, start=again.end))
    planned = reader.latestOffset(read, ReadAllAvailable())
    with pytest.raises(PermanentError, match="epoch 0 was planned with other input"):
        reader.partitions(read, planned)
    assert input_incidents(store) == [0]


@pytest.mark.parametrize("decided_again", [True, False])
def test_no_epoch_is_proposed_after_one_that_the_epoch_log_has_lost(
    reader: EpochReader,
    store: ControlStore,
    decided_again: bool,  # noqa: FBT001 (pytest names it)
) -> None:
    store.epochs.propose(a_rate_proposal())
    read = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    lose(store, epochs, 0)
    if decided_again:
        store.epochs.propose(a_rate_proposal(rows=20))
    with pytest.raises(PermanentError, match="is not in the epoch log any more"):
        reader.latestOffset(read, ReadAllAvailable())
    assert store.epochs.get(NAME, 1) is None
    assert input_incidents(store) == [0]


def test_an_epoch_that_was_planned_and_lost_opens_an_incident(
    reader: EpochReader, store: ControlStore
) -> None:
    first = reader.initialOffset()
    store.epochs.propose(a_rate_proposal())
    planned = reader.latestOffset(first, ReadAllAvailable())
    lose(store, epochs, 0)
    with pytest.raises(PermanentError, match="epoch 0 was planned, and the epoch log has lost it"):
        reader.partitions(first, planned)
    assert input_incidents(store) == [0]


def test_a_process_of_an_ended_history_stops_without_an_incident(
    reader: EpochReader, store: ControlStore
) -> None:
    """A restore has closed the incident: it would stay open, as the new history has the epoch again."""
    first = reader.initialOffset()
    store.epochs.propose(a_rate_proposal())
    planned = reader.latestOffset(first, ReadAllAvailable())
    lose(store, epochs, 0)
    request = store.restores.request(NAME, epoch=-1, snapshot=None, why="", run="run")
    store.restores.begin(request)
    with pytest.raises(PermanentError, match="the epoch log has lost it"):
        reader.partitions(first, planned)
    assert input_incidents(store) == []


def test_an_epoch_is_read_when_the_one_before_it_is_pruned(
    reader: EpochReader, store: ControlStore
) -> None:
    first = store.epochs.propose(a_rate_proposal())
    second = store.epochs.propose(replace(a_rate_proposal(), epoch=1, start=first.end))
    store.retention.prune_epochs(NAME, before=1)
    before = {"epoch": 0, "input": digest_input(first)}
    splits = reader.partitions(before, {"epoch": 1, "input": digest_input(second)})
    assert len(splits) > 0


def test_an_epoch_log_that_is_away_for_a_while_is_waited_for(
    reader: EpochReader, store: ControlStore
) -> None:
    start = reader.initialOffset()
    store.epochs.propose(a_rate_proposal())
    with store._database.write() as connection:
        connection.exec_driver_sql("ALTER TABLE epochs RENAME TO epochs_away")
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    with store._database.write() as connection:
        connection.exec_driver_sql("ALTER TABLE epochs_away RENAME TO epochs")
    assert reader.latestOffset(start, ReadAllAvailable())["epoch"] == 0


def test_an_input_that_is_away_is_logged_every_few_seconds_however_often_spark_asks(
    tmp_path: Path, store: ControlStore, caplog: pytest.LogCaptureFixture
) -> None:
    away = {"kind": "files", "path": f"{tmp_path}/away", "format": "jsonl", "schema": "id bigint"}
    spec, clock = a_spec(tmp_path, store, source=away), SteppedClock()
    Gate(spec.folder).set(GateState(open=True, token=1))
    reader = EpochReader(spec, SCHEMA, clock=clock)
    start = reader.initialOffset()
    for _ in range(200):
        assert reader.latestOffset(start, ReadAllAvailable()) == start
        clock.step(0.05)
    reader.stop()
    assert len(caplog.messages) == 2
    assert f"waiting for epoch 0: the input folder {tmp_path}/away is away" in caplog.messages
    assert len(store.samples.series(NAME, SampleName.INPUT_AWAY)) == 2
