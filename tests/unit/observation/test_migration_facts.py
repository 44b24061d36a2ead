"""When the target of a migration has caught up: as near as its protocol asks, and compared with the primary."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.ft_policies.playbooks.recover.migration import MOST_BEHIND, Protocol
from holdfast.ft_policies.tiers import SECONDARY, Tier
from holdfast.observation.status import migration_facts
from holdfast.resources.control_store.records import Migration, ReplicaState, Slot
from holdfast.resources.control_store.store import ControlStore
from tests.builders.control_rows import an_entry, register

COMMITTED = 160


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ControlStore]:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as store:
        for epoch in range(COMMITTED + 1):
            store.ledger.commit(an_entry(epoch, replica="p1"))
        yield store


def a_migration(protocol: Protocol) -> Migration:
    """One that was begun at 100 and has until 300."""
    return Migration(
        stream="words", rollout=1, target={}, target_tier=Tier.DEPLOYED, protocol=protocol,
        begun_at=100.0, deadline_at=300.0, may_differ=False, why="", run="r",
        ended_at=None, done=None, outcome="",
    )  # fmt: skip


def has_caught_up(
    store: ControlStore, protocol: Protocol, *, behind: int, compared: bool = True, at: float = 110
) -> bool:
    epoch = COMMITTED - behind
    register(store, "t1", slot=Slot.SECONDARY, rollout=1)
    store.replicas.heartbeat(
        "t1",
        state=ReplicaState.RUNNING,
        observed=SECONDARY[Tier.ACTIVE_STANDBY],
        observed_generation=0,
        snapshot_served=0,
        epoch=epoch,
    )
    if compared:
        store.ledger.commit(an_entry(epoch, replica="t1"))
    facts = migration_facts(
        store,
        a_migration(protocol),
        before=0,
        at=at,
        committed=store.ledger.last("words"),
        replicas=store.replicas.of("words"),
    )
    return facts.caught_up


PROCESSING = (Protocol.INTERRUPTION_FREE, Protocol.REPLAY)


@pytest.mark.parametrize("protocol", PROCESSING)
def test_a_target_has_caught_up_within_what_its_protocol_allows(
    store: ControlStore, protocol: Protocol
) -> None:
    assert has_caught_up(store, protocol, behind=MOST_BEHIND[protocol])


@pytest.mark.parametrize("protocol", PROCESSING)
def test_a_target_that_is_further_behind_is_waited_for(
    store: ControlStore, protocol: Protocol
) -> None:
    assert not has_caught_up(store, protocol, behind=MOST_BEHIND[protocol] + 1)


@pytest.mark.parametrize("protocol", PROCESSING)
def test_a_target_that_was_compared_with_nothing_has_not_caught_up(
    store: ControlStore, protocol: Protocol
) -> None:
    assert not has_caught_up(store, protocol, behind=0, compared=False)


@pytest.mark.parametrize(
    ("protocol", "caught_up"), [(Protocol.INTERRUPTION_FREE, False), (Protocol.REPLAY, True)]
)
def test_only_a_replay_does_not_wait_for_a_target_that_never_comes_near(
    store: ControlStore, protocol: Protocol, *, caught_up: bool
) -> None:
    assert has_caught_up(store, protocol, behind=150, at=201.0) is caught_up
