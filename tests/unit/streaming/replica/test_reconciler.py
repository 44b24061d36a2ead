"""The roles of a replica: standby, taking over, primary, leaving."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.ft_policies.health import DetectedBy
from holdfast.ft_policies.tiers import PRIMARY, SECONDARY, Tier
from holdfast.resources.control_store.records import (
    DesiredState,
    EndedBy,
    Lease,
    ReplicaState,
    Slot,
)
from holdfast.resources.control_store.store import ControlStore
from holdfast.streaming.gate import GateState
from holdfast.streaming.replica.failover import FailedPrimary, Takeover
from holdfast.streaming.replica.reconciler import Ending, Reconciler
from holdfast.streaming.replica.states import Processing, Role
from tests.builders.control_rows import decide, register
from tests.builders.replicas import REPLICA, a_reconciler, query_of
from tests.waiting import wait_until

ACTIVE = SECONDARY[Tier.ACTIVE_STANDBY]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ControlStore]:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as opened:
        yield opened


def a_primary(store: ControlStore) -> Lease:
    """Another replica that runs as the primary, with its lease."""
    store.streams.declare("words", {}, "active_standby")
    store.streams.desire("words", DesiredState.RUNNING)
    assert register(store, "p1") is not None
    lease = store.leases.take("words", "p1", 60.0)
    assert lease is not None
    return lease


@contextmanager
def running(reconciler: Reconciler) -> Iterator["Future[Ending]"]:
    """Its loop in a thread; it has been asked to stop by the end."""
    with ThreadPoolExecutor(1) as pool:
        try:
            yield pool.submit(reconciler.run)
        finally:
            reconciler.departure.stop_requested.set()
            reconciler.wake.set()


def catch_up(reconciler: Reconciler, *, epoch: int) -> None:
    wait_until(lambda: reconciler.processor.state is Processing.CATCHING_UP)
    query = query_of(reconciler.processor)
    query.wired, query.epoch = True, epoch
    wait_until(lambda: reconciler.processor.state is Processing.CAUGHT_UP)


def test_a_replica_that_is_launched_as_primary_takes_the_lease_first(
    tmp_path: Path, store: ControlStore
) -> None:
    decide(store, 3)
    reconciler = a_reconciler(tmp_path, store)
    earlier = store.leases.take("words", "another", 60.0)
    assert earlier is not None
    with running(reconciler) as ended:
        assert reconciler.role is Role.TAKING_OVER
        store.leases.release(earlier)
        catch_up(reconciler, epoch=2)
        assert reconciler.leading.wait(5.0)
        assert (reconciler.role, reconciler.sending.is_open) == (Role.PRIMARY, True)
        reconciler.heartbeat.beat()
        row = reconciler.heartbeat.row
        assert (row.state, row.observed, row.epoch) == (ReplicaState.RUNNING, PRIMARY, 2)
    assert ended.result() is Ending.STOPPED
    assert reconciler.role is Role.LEAVING
    assert not reconciler.processor.gate.get().open


def test_one_that_is_asked_to_stop_before_it_has_the_lease_never_opens_its_gate(
    tmp_path: Path, store: ControlStore
) -> None:
    reconciler = a_reconciler(tmp_path, store)
    assert store.leases.take("words", "another", 60.0) is not None
    with running(reconciler) as ended:
        pass
    assert ended.result() is Ending.STOPPED
    assert reconciler.processor.state is Processing.STOPPED
    assert reconciler.heartbeat.lease.held is None


def test_a_standby_has_caught_up_without_sending_and_leads_nothing(
    tmp_path: Path, store: ControlStore
) -> None:
    decide(store, 3)
    reconciler = a_reconciler(tmp_path, store, slot=Slot.SECONDARY, desired=ACTIVE)
    with running(reconciler):
        catch_up(reconciler, epoch=2)
        wait_until(lambda: reconciler._observe_switches() == ACTIVE)
        assert (reconciler.role, reconciler.sending.is_open) == (Role.STANDBY, False)
    assert not reconciler.leading.is_set()


def test_a_standby_takes_over_with_the_new_token_and_reopens_its_gate(
    tmp_path: Path, store: ControlStore
) -> None:
    decide(store, 3)
    old = a_primary(store)
    reconciler = a_reconciler(tmp_path, store, slot=Slot.SECONDARY, desired=ACTIVE)
    with running(reconciler):
        catch_up(reconciler, epoch=2)
        store.replicas.end("p1", ReplicaState.DEAD, "killed", by=EndedBy.REPLICA)
        reconciler.monitor.look()
        wait_until(reconciler.leading.is_set)
        assert reconciler.role is Role.PRIMARY
        lease = reconciler.heartbeat.lease
        assert lease.token == old.token + 1
        assert reconciler.processor.gate.get() == GateState(open=True, token=lease.token)
        wait_until(lambda: "recovery_seconds" in store.samples.latest("words"))


def test_one_that_has_the_slot_and_not_the_token_yet_changes_nothing(
    tmp_path: Path, store: ControlStore
) -> None:
    decide(store, 3)
    old = a_primary(store)
    reconciler = a_reconciler(tmp_path, store, slot=Slot.SECONDARY, desired=ACTIVE)
    store.replicas.end("p1", ReplicaState.DEAD, "killed", by=EndedBy.REPLICA)
    taken = store.takeovers.take(
        "words", REPLICA, primary=None, observed=old, ttl_seconds=60.0, reason="gone"
    )
    assert taken is not None
    reconciler.heartbeat.beat()
    reconciler._reconcile()
    assert reconciler.role is Role.TAKING_OVER
    assert (reconciler.processor.queries.current, reconciler.sending.is_open) == (None, False)
    failed = FailedPrimary(None, old, "gone", DetectedBy.ABSENCE)
    reconciler.monitor.promotion = Takeover(reconciler.heartbeat).attempt(failed)
    reconciler._reconcile()
    assert (reconciler.role, reconciler.heartbeat.lease.token) == (Role.PRIMARY, taken.token)


def test_a_replica_that_has_lost_its_place_leaves_its_gate_alone(
    tmp_path: Path, store: ControlStore
) -> None:
    decide(store, 3)
    reconciler = a_reconciler(tmp_path, store)
    with running(reconciler) as ended:
        catch_up(reconciler, epoch=2)
        query = query_of(reconciler.processor)
        reconciler.heartbeat.lost.set()
    assert ended.result() is Ending.LOST
    assert reconciler.processor.gate.get().open
    assert query.ended.is_set()


def test_a_replica_outlives_a_control_store_that_refuses_for_a_while(
    tmp_path: Path, store: ControlStore, caplog: pytest.LogCaptureFixture
) -> None:
    decide(store, 3)
    with ControlStore.open(store.url, in_replica=True) as opened:
        reconciler = a_reconciler(tmp_path, opened)
        away = ("epochs", "ledger", "leases")
        _rename(store, {table: f"{table}_away" for table in away})
        with running(reconciler) as ended:
            wait_until(lambda: "no such table" in caplog.text or ended.done())
            assert not ended.done()
            _rename(store, {f"{table}_away": table for table in away})
            catch_up(reconciler, epoch=2)
            assert reconciler.leading.wait(5.0)


def _rename(store: ControlStore, tables: dict[str, str]) -> None:
    with store._database.write() as connection:
        for table, name in tables.items():
            connection.exec_driver_sql(f"ALTER TABLE {table} RENAME TO {name}")
