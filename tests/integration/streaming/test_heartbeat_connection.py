"""The heartbeat of a replica beside threads that keep all its other connections to PostgreSQL busy."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
import sqlalchemy as sa

from holdfast.resources.control_store.database import CONNECTIONS
from holdfast.resources.control_store.store import ControlStore
from holdfast.streaming.gate import Gate
from holdfast.streaming.replica.process import ReplicaProcess
from tests.builders.control_rows import register
from tests.builders.replicas import REPLICA, a_spec
from tests.live.postgres import fresh_database

pytestmark = pytest.mark.integration

LEASE_SECONDS = 3.0


@pytest.fixture
def store() -> Iterator[ControlStore]:
    with fresh_database() as url, ControlStore.open(url) as opened:
        yield opened


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
