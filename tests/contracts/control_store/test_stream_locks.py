"""Long writes lock one stream of PostgreSQL: replicas of the others write in the middle of each portion."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from holdfast.ft_policies.errors import TransientError
from holdfast.resources.control_store.records import DesiredState, Lease, Slot
from holdfast.resources.control_store.store import ControlStore
from tests.builders.control_rows import a_proposal, an_entry, beat, decide, register
from tests.live.postgres import fresh_database

pytestmark = pytest.mark.integration

EPOCHS = 5
IMPATIENT = "&options=-c%20lock_timeout%3D200"
"""A write that waits for a lock fails."""


@dataclass
class OtherStream:
    """A replica that beats, and decides and enters an epoch, each time that another process writes."""

    store: ControlStore
    lease: Lease
    epochs: int = 0
    failures: list[TransientError] = field(default_factory=list)

    def write(self) -> None:
        try:
            beat(self.store, "other-1", epoch=self.epochs)
            renewed = self.store.leases.renew(self.lease, 60.0)
            assert renewed is not None
            self.store.epochs.propose(a_proposal(self.epochs, stream="other"))
            self.store.ledger.commit(an_entry(self.epochs, stream="other"))
        except TransientError as error:
            self.failures.append(error)
        self.epochs += 1


@pytest.fixture
def url() -> Iterator[str]:
    with fresh_database() as address:
        yield address


@pytest.fixture
def store(url: str) -> Iterator[ControlStore]:
    """A stopped stream with a past."""
    with ControlStore.open(url) as store:
        for stream in ("words", "other"):
            store.streams.declare(stream, {}, "deployed")
        store.streams.desire("words", DesiredState.STOPPED)
        decide(store, EPOCHS)
        for epoch in range(EPOCHS):
            store.ledger.commit(an_entry(epoch))
        yield store


@pytest.fixture
def other(url: str, store: ControlStore) -> Iterator[OtherStream]:
    register(store, "other-1", stream="other", slot=Slot.PRIMARY)
    with ControlStore.open(f"{url}{IMPATIENT}") as impatient:
        lease = impatient.leases.take("other", "other-1", 60.0)
        assert lease is not None
        yield OtherStream(impatient, lease)


@contextmanager
def during_each_write(store: ControlStore, act: Callable[[], None]) -> Iterator[None]:
    """Something happens after each statement of a transaction that writes, before its end."""

    def after(_connection: sa.Connection, _cursor: object, statement: str, *_rest: object) -> None:
        if statement.startswith(("INSERT", "UPDATE", "DELETE")):
            act()

    event.listen(store._database.engine, "after_cursor_execute", after)
    try:
        yield
    finally:
        event.remove(store._database.engine, "after_cursor_execute", after)


def fork(store: ControlStore) -> None:
    store.forks.copy("words", into="trial", through_epoch=EPOCHS - 1)


def restore(store: ControlStore) -> None:
    wanted = store.restores.request("words", epoch=0, snapshot=None, why="", run="run")
    assert store.restores.begin(wanted) == EPOCHS - 1
    store.restores.finish(wanted)


def prune(store: ControlStore) -> None:
    assert store.retention.prune_epochs("words", before=EPOCHS - 1) == EPOCHS - 1


@pytest.mark.parametrize("write", [fork, restore, prune])
def test_a_replica_of_another_stream_goes_on_during_a_portion(
    store: ControlStore, other: OtherStream, write: Callable[[ControlStore], None]
) -> None:
    with during_each_write(store, other.write):
        write(store)
    assert other.epochs > 1
    assert other.failures == []


def test_an_entry_of_the_stream_itself_waits_until_its_history_has_ended(
    store: ControlStore, other: OtherStream
) -> None:
    """So the test above would notice a lock that another stream waits for."""
    refused: list[TransientError] = []

    def enter() -> None:
        try:
            other.store.ledger.commit(an_entry(EPOCHS))
        except TransientError as error:
            refused.append(error)

    wanted = store.restores.request("words", epoch=0, snapshot=None, why="", run="run")
    with during_each_write(store, enter):
        store.restores.begin(wanted)
    assert refused
