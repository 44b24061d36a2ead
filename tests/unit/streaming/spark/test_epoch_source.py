"""The epoch source without a query: what it proposes to a real control store, and what it records."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StructField, StructType

from holdfast.configs.declarations.deployment import EmbeddedObjectStore
from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.resources.clock import SYSTEM_CLOCK, Clock
from holdfast.resources.control_store.records import EpochProposal
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.schema import epochs
from holdfast.resources.control_store.store import ControlStore
from holdfast.streaming.gate import Gate, GateState
from holdfast.streaming.sources.files import FilesSource
from holdfast.streaming.sources.lag import Lag
from holdfast.streaming.spark import epoch_source
from holdfast.streaming.spark.epoch_source import EpochReader
from holdfast.streaming.spec import ReplicaSpec
from tests.fakes.clocks import SteppedClock

NAME = "words"
SCHEMA = StructType([StructField("id", LongType())])
RATE = {
    "kind": "rate", "seed": 5, "keys": 10, "profile": {"kind": "constant", "rows_per_second": 100}
}  # fmt: skip
GAP = {"recovery_time": 60, "guarantee": "gap"}
PRECISE = {"recovery_time": 60}
OUTAGE_SECONDS = 300.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ControlStore]:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as opened:
        yield opened


def a_reader(
    home: Path, store: ControlStore, replica: str, *, clock: Clock = SYSTEM_CLOCK, **declared: Any
) -> EpochReader:
    """The reader of a replica that has taken over: its gate is open, with a newer token."""
    folder = home / "replicas" / replica
    folder.mkdir(parents=True)
    stream = {"name": NAME, "app": "json:loads", "source": RATE, "tier": "passive_replication"}
    spec = ReplicaSpec(
        replica=replica,
        stream=StreamDeclaration.model_validate({**stream, **declared}),
        control_url=store.url,
        home=home,
        folder=folder,
        table=str(home / "table"),
        object_store=EmbeddedObjectStore(),
    )
    Gate(folder).set(GateState(open=True, token=2))
    return EpochReader(spec, SCHEMA, clock=clock)


def advance(reader: EpochReader, epoch: int) -> int:
    """The epoch that the reader gets after this one."""
    offset: int = reader.latestOffset({"epoch": epoch}, ReadAllAvailable())["epoch"]
    return offset


def read_again(reader: EpochReader) -> EpochReader:
    """Another reader of the same replica, which remembers nothing."""
    return EpochReader(reader._spec, SCHEMA)


def set_decided_at(store: ControlStore, at: float) -> None:
    store._database.execute(epochs.update().values(decided_at=at))


def before_the_outage(store: ControlStore, *, source: str = "rate") -> float:
    """Epoch 0 of another replica, decided long ago; returns when."""
    at = store.now() - OUTAGE_SECONDS
    position = {"origin": at, "rows": 0} if source == "rate" else {"files": 0}
    taken = {"first": 0, "rows": 0, "start": at} if source == "rate" else {"files": []}
    store.epochs.propose(
        EpochProposal(
            stream=NAME, epoch=0, start={}, end=position, input=taken, rows=0, token=1,
            proposer="before",
        )
    )  # fmt: skip
    set_decided_at(store, at)
    return at


def test_after_an_outage_a_stream_with_gap_begins_late_and_counts_what_it_skips(
    tmp_path: Path, store: ControlStore
) -> None:
    before_the_outage(store)
    reader = a_reader(tmp_path, store, "after", objective=GAP)
    assert advance(reader, 0) == 1
    late = store.epochs.get(NAME, 1)
    assert late is not None
    skipped = late.input["skipped_rows"]
    assert 100 * (OUTAGE_SECONDS - 60) <= skipped <= 100 * (OUTAGE_SECONDS - 60 + 30)
    assert (late.rows, late.end["rows"], late.input["first"]) == (0, skipped, skipped)
    assert [gap.rows for gap in store.gaps.of(NAME)] == [skipped]

    set_decided_at(store, store.now() - OUTAGE_SECONDS)  # now it is only slow
    assert advance(read_again(reader), 1) == 2
    following = store.epochs.get(NAME, 2)
    assert following is not None
    assert following.input["first"] == skipped
    assert following.rows >= 100 * 60
    assert len(store.gaps.of(NAME)) == 1


@pytest.mark.parametrize(
    "objective",
    [{**GAP, "guarantee": "precise"}, {**GAP, "recovery_time": 2 * OUTAGE_SECONDS}],
    ids=["precise", "in time"],
)
def test_otherwise_nothing_is_skipped(
    tmp_path: Path, store: ControlStore, objective: dict[str, object]
) -> None:
    before_the_outage(store)
    assert advance(a_reader(tmp_path, store, "after", objective=objective), 0) == 1
    decided = store.epochs.get(NAME, 1)
    assert decided is not None
    assert decided.input["first"] == 0
    assert decided.rows >= 100 * OUTAGE_SECONDS
    assert store.gaps.of(NAME) == []


def test_a_replica_that_proposes_under_the_token_of_the_last_epoch_skips_nothing(
    tmp_path: Path, store: ControlStore
) -> None:
    before_the_outage(store)  # by the other replica of an active tier
    reader = a_reader(tmp_path, store, "beside", objective=GAP)
    Gate(reader._spec.folder).set(GateState(open=True, token=1))
    assert advance(reader, 0) == 1
    assert store.gaps.of(NAME) == []


def test_files_of_the_outage_are_skipped_by_name(tmp_path: Path, store: ControlStore) -> None:
    folder = tmp_path / "input"
    folder.mkdir()
    at = before_the_outage(store, source="files")
    for name, arrived_at in (("a", at + 10), ("b", at + 20), ("c", store.now() - 30)):
        file = folder / f"{name}.jsonl"
        file.write_text(f"{json.dumps({'id': 1})}\n" * 5)
        os.utime(file, (arrived_at, arrived_at))
    source = {"kind": "files", "path": str(folder), "format": "jsonl", "schema": "id bigint"}
    reader = a_reader(tmp_path, store, "after", objective=GAP, source=source)
    assert (advance(reader, 0), advance(reader, 1)) == (1, 1)  # the next epoch is not due yet
    assert [gap.files for gap in store.gaps.of(NAME)] == [{1: {"a.jsonl": 5, "b.jsonl": 5}}]
    set_decided_at(store, store.now() - 10)
    assert advance(read_again(reader), 1) == 2
    (read,) = store.epochs.between(NAME, 2, 2)
    assert ([file["name"] for file in read.input["files"]], read.rows) == (["c.jsonl"], 5)


def test_decided_epochs_are_replayed_without_a_look_at_the_source(
    tmp_path: Path, store: ControlStore
) -> None:
    clock, folder = SteppedClock(), tmp_path / "input"
    folder.mkdir()
    file = {"name": "a.jsonl", "size": 1, "changed_ns": int((store.now() - 40) * 1e9), "rows": 1}
    for epoch in range(3):
        proposal = EpochProposal(
            stream=NAME, epoch=epoch, start={}, end={"files": 1}, rows=1, token=1, proposer="before",
            input={"files": [{**file, "name": f"{epoch}.jsonl"}]},
        )  # fmt: skip
        store.epochs.propose(proposal)
    source = {"kind": "files", "path": str(folder), "format": "jsonl", "schema": "id bigint"}
    reader = a_reader(tmp_path, store, "after", objective=GAP, source=source, clock=clock)
    folder.rmdir()  # a look would raise
    for epoch in range(3):
        clock.step(4.0)
        assert advance(reader, epoch - 1) == epoch
    (lag,) = store.samples.series(NAME, SampleName.LAG_SECONDS)
    assert (lag.epoch, 40 <= lag.value < 70) == (1, True)
    assert isinstance(reader._source, FilesSource)
    assert reader._source._listed_at == float("-inf")


def test_the_pause_after_a_slow_measurement_of_the_lag_is_ten_times_as_long(
    tmp_path: Path, store: ControlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SteppedClock(0.0)

    def measure_slowly(*_args: object, **_kwargs: object) -> Lag:
        clock.step(3.0)
        return Lag(rows=1, seconds=1.0)

    monkeypatch.setattr(epoch_source, "measure_lag", measure_slowly)
    before_the_outage(store)
    reader = a_reader(tmp_path, store, "after", objective=PRECISE, epoch={"rows": 100}, clock=clock)
    measured = []
    for epoch, at in enumerate((5.0, 37.0, 38.0)):
        clock.at = at
        assert advance(reader, epoch) == epoch + 1
        measured.append(len(store.samples.series(NAME, SampleName.LAG_ROWS)))
    assert measured == [1, 1, 2]


def test_the_lag_is_recorded_also_if_more_waits_than_an_epoch_has(
    tmp_path: Path, store: ControlStore
) -> None:
    clock = SteppedClock(0.0)
    before_the_outage(store)
    reader = a_reader(tmp_path, store, "after", objective=PRECISE, epoch={"rows": 100}, clock=clock)
    advance(reader, 0)
    assert store.samples.series(NAME, SampleName.LAG_SECONDS) == []  # it has just started
    clock.at = 5.0
    advance(reader, 1)
    (seconds,) = store.samples.series(NAME, SampleName.LAG_SECONDS)
    (rows,) = store.samples.series(NAME, SampleName.LAG_ROWS)
    assert OUTAGE_SECONDS <= seconds.value < OUTAGE_SECONDS + 30
    assert rows.value >= 100 * OUTAGE_SECONDS
    assert (rows.at, rows.replica) == (seconds.at, "after")
