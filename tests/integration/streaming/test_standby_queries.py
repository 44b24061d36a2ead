"""What a replica does with Spark before it is needed: queries held ready, a rehearsal, a warm-up."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession

from holdfast.resources.control_store.store import ControlStore
from holdfast.streaming.gate import Gate, GateState
from holdfast.streaming.query.query import RunningQuery, open_sender
from holdfast.streaming.query.rehearsal import rehearse, warm_up
from holdfast.streaming.sinks.ledger_writer import LedgerWriter
from holdfast.streaming.sinks.sender import Sender
from holdfast.streaming.spark.checkpoint import give_identity
from holdfast.streaming.spark.epoch_source import EpochSource
from holdfast.streaming.spec import ReplicaSpec
from tests.fakes.leases import FixedToken
from tests.live.spark_queries import NAME, QueryProject, checkpoint_of
from tests.waiting import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def project(tmp_path: Path, spark: SparkSession) -> QueryProject:
    spark.dataSource.register(EpochSource)
    return QueryProject(tmp_path, ControlStore.open(f"sqlite:///{tmp_path}/control.db"), spark)


def until(condition: Callable[[], bool], what: str) -> None:
    wait_until(condition, within_seconds=60, every_seconds=0.05, story=lambda: f"not {what}")


def a_copy(project: QueryProject, spec: ReplicaSpec, sender: Sender, name: str) -> RunningQuery:
    folder = spec.folder / name
    shutil.copytree(checkpoint_of(spec), folder)
    give_identity(folder)
    return RunningQuery(spec, project.spark, sender, folder, None)


def test_a_held_query_stays_ready_while_its_successor_starts(project: QueryProject) -> None:
    spec = project.spec("r1")
    project.run(spec, through_epoch=1)
    Gate(spec.folder).set(GateState(open=False, token=1))
    ledger = LedgerWriter(project.store, NAME, "r1", FixedToken())
    sender = open_sender(spec, ledger, sending=True)
    held, fresh = a_copy(project, spec, sender, "held"), a_copy(project, spec, sender, "fresh")
    try:
        held.start()
        until(lambda: held.ready, "ready")
        fresh.start()
        until(lambda: fresh.ready, "ready")
        until(lambda: held.ready, "still ready")
        held.stop()
        reached = fresh.epoch
        assert reached is not None
        Gate(spec.folder).set(GateState(open=True, token=2))
        until(lambda: (fresh.epoch or 0) > reached, "one epoch further")
        assert held.epoch == reached
    finally:
        held.stop()
        fresh.stop()
    entries = project.ledger()
    assert [entry.epoch for entry in entries] == list(range(len(entries)))


def test_a_rehearsal_runs_the_plan_and_leaves_nothing(project: QueryProject) -> None:
    spec = project.spec("r1")
    project.run(spec, through_epoch=2)
    before = project.ledger(), project.store.epochs.last(NAME)
    second = project.spec("r2")
    assert rehearse(project.spark, second, decided_epochs=3, give_up=lambda: False)
    assert (project.ledger(), project.store.epochs.last(NAME)) == before
    assert not (second.folder / "rehearsal").exists()


def test_a_rehearsal_needs_an_epoch_and_ends_when_something_matters_more(
    project: QueryProject,
) -> None:
    spec = project.spec("r1")
    assert not rehearse(project.spark, spec, decided_epochs=0, give_up=lambda: False)
    project.run(spec, through_epoch=2)
    second = project.spec("r2")
    assert not rehearse(project.spark, second, decided_epochs=3, give_up=lambda: True)


def test_a_warm_up_leaves_the_session_of_the_stream_as_it_was(spark: SparkSession) -> None:
    before = spark.conf.getAll
    assert warm_up(spark)
    assert spark.conf.getAll == before


def test_workers_import_the_pyspark_that_is_installed(spark: SparkSession) -> None:
    def origin(_: int) -> str:
        import pyspark

        return str(pyspark.__file__)

    assert spark.sparkContext.parallelize([0]).map(origin).collect() == [origin(0)]


def test_a_warm_up_that_fails_is_reported_and_no_more(caplog: pytest.LogCaptureFixture) -> None:
    class Ended:
        def newSession(self) -> SparkSession:  # noqa: N802 - as Spark has it
            raise Py4JNetworkError("Java has ended")

    caplog.set_level("INFO")
    assert not warm_up(cast("SparkSession", Ended()))
    assert "warm-up failed: Java has ended" in caplog.text
