"""The named states of a replica's processing, and what the gate says in each of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.ft_policies.tiers import PRIMARY, SECONDARY, Switches, Tier
from holdfast.resources.control_store.records import Slot
from holdfast.resources.control_store.store import ControlStore
from holdfast.streaming.gate import GateState
from holdfast.streaming.replica.processor import Processor
from holdfast.streaming.replica.states import Processing
from tests.builders.control_rows import decide, fence_holder
from tests.builders.replicas import a_reconciler, query_of
from tests.fakes.queries import EasyQuery

ACTIVE, HOT, COLD = (
    SECONDARY[tier]
    for tier in (Tier.ACTIVE_STANDBY, Tier.PASSIVE_STANDBY_HOT, Tier.PASSIVE_STANDBY_COLD)
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ControlStore]:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as opened:
        yield opened


@pytest.fixture
def processor(tmp_path: Path, store: ControlStore) -> Processor:
    """That of a replica with the lease, whose stream has decided the epochs 0 to 2."""
    decide(store, 3)
    reconciler = a_reconciler(tmp_path, store)
    assert reconciler.heartbeat.lease.take()
    return reconciler.processor


def caught_up(processor: Processor, desired: Switches) -> EasyQuery:
    """Process, and be as far as the epoch log."""
    assert processor.reconcile(desired) is Processing.CATCHING_UP
    query = query_of(processor)
    query.wired, query.epoch = True, 2
    assert processor.poll(sent=True)
    return query


def test_a_primary_has_caught_up_once_and_not_before_its_output_is_sent(
    processor: Processor,
) -> None:
    assert processor.state is Processing.STOPPED
    assert processor.reconcile(PRIMARY) is Processing.CATCHING_UP
    assert processor.gate.get() == GateState(open=True, token=1)
    assert not processor.poll(sent=True)
    query = query_of(processor)
    query.wired, query.epoch = True, 2
    assert not processor.poll(sent=False)
    assert processor.poll(sent=True)
    assert processor.state is Processing.CAUGHT_UP
    assert not processor.poll(sent=True)
    assert processor.reconcile(PRIMARY) is Processing.CAUGHT_UP


def test_a_secondary_proposes_under_the_token_of_the_primary_that_it_observes(
    tmp_path: Path, store: ControlStore
) -> None:
    decide(store, 3)
    reconciler = a_reconciler(tmp_path, store, slot=Slot.SECONDARY, desired=ACTIVE)
    lease, processor = reconciler.heartbeat.lease, reconciler.processor
    for token, primary in enumerate(("p1", "p2"), start=1):
        held = store.leases.take("words", primary, 60.0)
        assert held is not None
        lease.observe()
        processor.reconcile(ACTIVE)
        assert processor.gate.get() == GateState(open=True, token=token)
        store.leases.release(held)


def test_a_held_query_stays_behind_the_shut_gate(processor: Processor) -> None:
    query = caught_up(processor, ACTIVE)
    assert processor.reconcile(HOT) is Processing.HELD
    assert not processor.gate.get().open
    assert (processor.queries.current, query.ended.is_set()) == (query, False)
    assert processor.reconcile(ACTIVE) is Processing.CATCHING_UP, "epochs were decided meanwhile"


def test_a_stopped_query_stays_until_there_is_another_state(processor: Processor) -> None:
    query = caught_up(processor, ACTIVE)
    assert processor.reconcile(COLD) is Processing.STOPPED
    assert not processor.gate.get().open
    assert processor.queries.current is query
    assert processor.reconcile(SECONDARY[Tier.DEPLOYED]) is Processing.STOPPED
    assert processor.queries.current is None
    assert query.ended.is_set()


def test_after_a_takeover_the_gate_is_opened_again_with_the_new_token(processor: Processor) -> None:
    caught_up(processor, ACTIVE)
    lease = processor.departure.heartbeat.lease
    assert fence_holder(processor.store)
    assert lease.take()
    processor.reopen_gate()
    assert processor.state is Processing.HELD
    assert processor.gate.get() == GateState(open=True, token=1)
    assert processor.reconcile(PRIMARY) is Processing.CATCHING_UP
    assert processor.gate.get() == GateState(open=True, token=lease.token)
    assert lease.token > 1


def test_a_replica_that_has_lost_its_place_does_not_touch_the_gate(processor: Processor) -> None:
    processor.departure.heartbeat.lost.set()
    assert processor.reconcile(PRIMARY) is Processing.STOPPED
    assert processor.gate.get() == GateState(open=False, token=0)


def test_a_replica_that_leaves_shuts_the_gate(processor: Processor) -> None:
    query = caught_up(processor, PRIMARY)
    processor.finish(drain=True)
    assert (processor.state, processor.gate.get().open) == (Processing.STOPPED, False)
    processor.stop()
    assert query.ended.is_set()
