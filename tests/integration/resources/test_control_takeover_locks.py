"""Takeovers that meet a half-done transaction of another on PostgreSQL."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
import sqlalchemy as sa

from holdfast.ft_policies.tiers import OFF
from holdfast.resources.control_store.records import EndedBy, Lease, ReplicaState, Slot
from holdfast.resources.control_store.schema import leases, replicas, streams
from holdfast.resources.control_store.store import ControlStore
from tests.builders.control_rows import FailoverView, a_failover, held_lease, take_over
from tests.live.postgres import fresh_database
from tests.waiting import wait_until

pytestmark = pytest.mark.integration

DEADLINE_SECONDS = 20.0
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


@pytest.fixture
def store() -> Iterator[ControlStore]:
    with fresh_database() as url, ControlStore.open(url) as opened:
        yield opened


@contextmanager
def taking_over_during(
    store: ControlStore, half_done: sa.Executable, look: FailoverView
) -> Iterator[Future[Lease | None]]:
    """A takeover that waits for a transaction of another, which ends with the block."""
    with ThreadPoolExecutor(1) as pool, store._database.write() as connection:
        connection.execute(half_done)
        taking = pool.submit(take_over, store, look)
        _wait_until_blocked(store)
        assert not taking.done()
        yield taking
        connection.commit()
        taking.result(DEADLINE_SECONDS)


def _wait_until_blocked(store: ControlStore) -> None:
    url = store.url.replace("postgresql+psycopg", "postgresql")
    with psycopg.connect(url, autocommit=True) as watcher:
        wait_until(
            lambda: watcher.execute(WAITING).fetchone() != (0,),
            within_seconds=DEADLINE_SECONDS,
            story=lambda: "the takeover waits for nothing",
        )


def test_a_primary_registered_but_not_committed_is_in_the_way(store: ControlStore) -> None:
    look = a_failover(store)
    store.replicas.end("p1", ReplicaState.DEAD, "killed", by=EndedBy.REPLICA)
    row = {
        **{column.name: 0 for column in replicas.c},
        "id": "p2",
        "stream": "words",
        "slot": Slot.PRIMARY,
        "state": ReplicaState.STARTING,
        "desired": OFF,
        "observed": OFF,
        "host": "here",
        "folder": "",
        "reason": "",
        "ended_at": None,
        "ended_by": None,
    }
    with taking_over_during(store, sa.insert(replicas).values(row), look) as taking:
        pass
    assert taking.result() is None
    primary = store.replicas.live("words", Slot.PRIMARY)
    assert primary is not None
    assert primary.id == "p2"
    assert store.leases.get("words") == look.lease
    assert store.replicas.live("words", Slot.SECONDARY) is not None


@pytest.mark.parametrize(
    "half_done",
    [
        pytest.param(sa.update(leases).values(renewed_at=leases.c.renewed_at + 1), id="renewal"),
        pytest.param(sa.update(leases).values(token=leases.c.token + 1), id="fence"),
        pytest.param(sa.update(streams).values(desired="stopped"), id="stop"),
        pytest.param(
            sa.update(replicas).where(replicas.c.id == "s1").values(ended_at=1.0), id="end"
        ),
    ],
)
def test_what_another_commits_first_counts(store: ControlStore, half_done: sa.Executable) -> None:
    look = a_failover(store)
    with taking_over_during(store, half_done, look) as taking:
        pass
    assert taking.result() is None
    primary, lease = store.replicas.get("p1"), store.leases.get("words")
    assert primary is not None
    assert primary.ended_at is None
    assert lease is not None
    assert lease.holder == "p1"


def test_a_heartbeat_in_between_is_no_obstacle(store: ControlStore) -> None:
    look = a_failover(store)
    beat = sa.update(replicas).values(heartbeat_at=1.0)
    with taking_over_during(store, beat, look) as taking:
        pass
    lease = taking.result()
    assert lease is not None
    assert lease.token == held_lease(look).token + 1
