"""What a replica reports of itself, and by which token."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.clock import SYSTEM_CLOCK, Clock
from holdfast.resources.control_store.records import EndedBy, ReplicaRow, ReplicaState
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.control_store.tables.replicas import Replicas
from holdfast.streaming.lease import StreamLease
from holdfast.streaming.replica.heartbeat import Heartbeat
from tests.builders.control_rows import fence_holder, register
from tests.fakes.clocks import SteppedClock, shift_clock
from tests.waiting import wait_until


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ControlStore]:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as store:
        yield store


def a_heartbeat(
    store: ControlStore, *, beat_seconds: float = 0.5, clock: Clock = SYSTEM_CLOCK
) -> Heartbeat:
    row = register(store, "r1")
    assert row is not None
    lease = StreamLease(store, row.stream, row.id, ttl_seconds=600.0)
    return Heartbeat(
        store,
        row,
        lease,
        beat_seconds=beat_seconds,
        on_lost=lambda: None,
        exit_process=lambda: None,
        clock=clock,
    )


def test_a_replica_without_its_lease_keeps_its_token(store: ControlStore) -> None:
    lease = a_heartbeat(store).lease
    assert lease.take()
    mine = lease.token
    lease.release()
    other = store.leases.take(lease.stream, "r2", 60.0)
    assert other is not None
    lease.observe()
    assert (lease.held, lease.token) == (None, mine)
    assert other.token > mine > 0


def test_another_epoch_is_reported_without_waiting_for_the_next_beat(store: ControlStore) -> None:
    heartbeat = a_heartbeat(store, beat_seconds=600.0)
    heartbeat.start()
    try:
        for epoch in (7, 8):
            heartbeat.report(epoch=epoch)
            wait_until(lambda reported=epoch: store.replicas.get("r1").epoch == reported)
    finally:
        heartbeat.stop()


def test_before_its_first_lease_a_replica_writes_by_the_token_of_the_one_it_observed(
    store: ControlStore,
) -> None:
    lease = a_heartbeat(store).lease
    assert lease.token == 0
    other = store.leases.take(lease.stream, "r2", 60.0)
    assert other is not None
    assert lease.observe() == other
    assert (lease.held, lease.token) == (None, other.token)


def test_a_lease_that_another_replica_has_taken_ends_this_one(store: ControlStore) -> None:
    heartbeat = a_heartbeat(store)
    assert heartbeat.lease.take()
    heartbeat.beat()
    assert not heartbeat.lost.is_set()
    assert fence_holder(store, heartbeat.row.stream)
    assert store.leases.take(heartbeat.row.stream, "r2", 60.0) is not None
    assert not heartbeat.lease.renew()


class FailingReplicas(Replicas):
    """Heartbeats fail as often as a test says."""

    failures: int = 0

    def heartbeat(self, id: str, **report: object) -> ReplicaRow:  # noqa: A002
        if self.failures > 0:
            self.failures -= 1
            raise PermanentError("rejected a statement", hint="report this")
        return super().heartbeat(id, **report)  # type: ignore[arg-type]


def test_no_error_of_the_store_ends_a_replica(store: ControlStore) -> None:
    failing = store.replicas = FailingReplicas(store._database)
    failing.failures = 3
    heartbeat = a_heartbeat(store, beat_seconds=0.01)
    heartbeat.start()
    try:
        wait_until(lambda: store.replicas.get("r1").heartbeat_at is not None)
        assert failing.failures == 0
        assert not heartbeat.lost.is_set()
    finally:
        heartbeat.stop()


def test_a_replica_whose_row_is_gone_ends(store: ControlStore) -> None:
    heartbeat = a_heartbeat(store)
    with store._database.write() as connection:
        connection.exec_driver_sql("DELETE FROM replicas")
    heartbeat.beat()
    assert heartbeat.lost.is_set()


def test_a_replica_whose_row_has_ended_ends(store: ControlStore) -> None:
    heartbeat = a_heartbeat(store)
    store.replicas.end("r1", ReplicaState.FENCED, "another took over", by=EndedBy.TAKEOVER)
    heartbeat.beat()
    assert heartbeat.lost.is_set()


def test_a_heartbeat_tells_how_long_ago_the_last_epoch_was_by_the_clock_of_the_replica(
    store: ControlStore,
) -> None:
    clock = SteppedClock()
    heartbeat = a_heartbeat(store, clock=clock)
    clock.step(100.0)
    heartbeat.report(epoch=3)
    clock.step(30.0)
    for shift_seconds in (0.0, 3600.0, -3600.0):
        shift_clock(store, shift_seconds)
        heartbeat.beat()
        quiet_seconds = store.now() - (heartbeat.row.finished_at or 0.0)
        assert quiet_seconds == pytest.approx(30.0, abs=10.0)
