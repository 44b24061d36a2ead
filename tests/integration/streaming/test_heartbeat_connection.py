"""The heartbeat of a replica beside threads that keep all its other connections to PostgreSQL busy."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
import sqlalchemy as sa

from holdfast.resources.control_store.database import CONNECTIONS
from holdfast.resources.control_store.records import Sample
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.store import ControlStore
from holdfast.streaming.gate import Gate
from holdfast.streaming.replica.process import ReplicaProcess
from holdfast.streaming.spark.epoch_source import EpochReader
from tests.builders.control_rows import register
from tests.builders.delta_sinks import SCHEMA
from tests.builders.replicas import REPLICA, a_spec
from tests.live.postgres import fresh_database

pytestmark = pytest.mark.integration

LEASE_SECONDS = 3.0


@pytest.fixture
def store() -> Iterator[ControlStore]:
    with fresh_database() as url, ControlStore.open(url) as opened:
        yield opened


def test_a_driver_takes_two_connections_and_the_process_of_its_source_one(
    tmp_path: Path, store: ControlStore
) -> None:
    row, others = register(store, REPLICA), connections(store)
    assert row is not None
    with ControlStore.open(store.url, in_replica=True) as driver, ThreadPoolExecutor(8) as pool:
        spec = a_spec(tmp_path, driver)
        process = ReplicaProcess(spec, driver, Future(), threading.Event())
        heartbeat = process._heartbeat(row, Gate(tmp_path))
        assert heartbeat.lease.take()
        for written in [pool.submit(fill, driver, thread) for thread in range(8)]:
            written.result(30)
        assert connections(store) - others == 2
        source = EpochReader(spec, SCHEMA)
        assert source._store.epochs.last("words") is None
        assert connections(store) - others == 3
        source.stop()


def connections(store: ControlStore) -> int:
    counted = "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database()"
    return int(store._database.fetch(sa.text(counted))[0]["n"])


def fill(store: ControlStore, thread: int) -> None:
    for number in range(20):
        sample = Sample(
            stream="words", replica=f"r{thread}", name=SampleName.LAG_ROWS, value=float(number)
        )
        store.samples.write([sample])


def test_a_replica_whose_connections_are_all_busy_renews_its_lease(
    tmp_path: Path, store: ControlStore
) -> None:
    row = register(store, REPLICA)
    assert row is not None
    process = ReplicaProcess(a_spec(tmp_path, store), store, Future(), threading.Event())
    heartbeat = process._heartbeat(row, Gate(tmp_path))
    assert heartbeat.lease.take()
    with ExitStack() as busy, ThreadPoolExecutor(1) as pool:
        for _ in range(CONNECTIONS):
            busy.enter_context(store._database.write()).execute(sa.text("SELECT 1"))
        beat = pool.submit(heartbeat.beat)
        busy.callback(beat.cancel)
        beat.result(LEASE_SECONDS)
    renewed = store.replicas.get(REPLICA)
    assert renewed is not None
    assert renewed.heartbeat_at is not None
