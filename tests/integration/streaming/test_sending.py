"""A replica that processes without sending, in real queries beside one that sends."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from holdfast.resources.control_store.store import ControlStore
from holdfast.streaming.query.query import open_sender
from holdfast.streaming.sinks.callable import CallableSink
from holdfast.streaming.sinks.ledger_writer import LedgerWriter
from holdfast.streaming.sinks.sender import Sender
from holdfast.streaming.spec import ReplicaSpec
from tests.fakes.leases import FixedToken
from tests.live.apps import WRITES
from tests.live.spark_queries import NAME, QueryProject

pytestmark = pytest.mark.integration


@pytest.fixture
def project(tmp_path: Path, spark: SparkSession) -> Iterator[QueryProject]:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as store:
        yield QueryProject(tmp_path, store, spark)


def a_sender(project: QueryProject, spec: ReplicaSpec) -> Sender:
    ledger = LedgerWriter(project.store, NAME, spec.replica, FixedToken())
    return open_sender(spec, ledger, sending=False)


def folders(spec: ReplicaSpec, replica: str) -> list[int]:
    """The epochs of which a replica has files on the table's storage."""
    return sorted(int(path.name[:12]) for path in Path(spec.table).glob(f"data/*-{replica}-*"))


def in_the_outbox(spec: ReplicaSpec) -> set[int]:
    """The epochs of which a replica with a sink of its own has rows on its disk."""
    return {int(path.name[:12]) for path in (spec.folder / "outbox").iterdir()}


def test_a_standby_keeps_its_epochs_prunes_what_the_primary_sent_and_sends_the_rest(
    project: QueryProject,
) -> None:
    spec, other = project.spec("standby"), project.spec("primary")
    sender = a_sender(project, spec)
    project.run(spec, through_epoch=7, sender=sender)
    kept = sender.held_back
    assert kept[:8] == tuple(range(8))
    assert project.ledger() == []
    assert len(folders(spec, "standby")) >= 4

    project.run(other, through_epoch=2)
    sent = project.ledger()[-1].epoch
    sender.prune()
    assert sender.held_back
    assert min(sender.held_back) > sent
    assert min(folders(spec, "standby")) > sent

    sender.open()
    assert (sender.is_open, sender.held_back) == (True, ())
    assert [entry.epoch for entry in project.ledger()][: len(kept)] == list(kept)
    assert {entry.replica for entry in project.ledger()} == {"standby", "primary"}
    assert project.store.ledger.audit(NAME).disagreements == []
    assert sorted(project.output(spec)["offset"]) == list(range(2000))


def test_the_users_own_sink_gets_kept_epochs_when_it_is_opened(
    project: QueryProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WRITES, str(tmp_path / "writes"))
    function = "tests.live.apps:write_lines"
    spec = project.spec("one", sink={"kind": "callable", "idempotent": True, "function": function})
    sender = a_sender(project, spec)
    project.run(spec, through_epoch=4, sender=sender)
    kept = sender.held_back
    assert not (tmp_path / "writes").exists()
    assert in_the_outbox(spec) >= {*kept} >= {*range(5)}
    sender.open()
    lines = [json.loads(line) for line in (tmp_path / "writes").read_text().splitlines()]
    entries = {entry.epoch: entry.rows for entry in project.ledger()}
    assert {line["epoch"]: line["rows"] for line in lines} == entries
    assert [line["epoch"] for line in lines] == list(range(len(lines)))
    assert not in_the_outbox(spec) & {*kept}, "only an epoch that was cut short may be left"


def test_kept_rows_come_back_as_they_were_even_if_there_are_none(
    project: QueryProject, spark: SparkSession, tmp_path: Path
) -> None:
    schema = StructType(
        [
            StructField("a b", StringType()),
            StructField("n", StructType([StructField("x", LongType())]), metadata={"unit": "s"}),
        ]
    )
    frames: dict[int, DataFrame] = {}
    ledger = LedgerWriter(project.store, NAME, "one", FixedToken())

    def write(df: DataFrame, epoch: int) -> None:
        frames[epoch] = df.localCheckpoint()

    sender = Sender(CallableSink(write, ledger, tmp_path / "outbox"), ledger, sending=False)
    rows = [("é", (1,)), (None, None)]
    sender(spark.createDataFrame(rows, schema), 0)
    sender(spark.createDataFrame([], schema), 1)
    sender(spark.createDataFrame(rows, schema), 2)
    LedgerWriter(project.store, NAME, "two", FixedToken()).write(0, rows=2, digest="another")
    sender.prune()
    assert sender.held_back == (1, 2)
    assert [incident.kind for incident in project.store.incidents.of(NAME)] == ["digest_differs"]
    sender.open()
    assert list(frames) == [1, 2]
    assert all(df.schema == schema for df in frames.values())
    assert [len(df.collect()) for df in frames.values()] == [0, 2]
    assert {tuple(row) for row in frames[2].collect()} == {("é", (1,)), (None, None)}
