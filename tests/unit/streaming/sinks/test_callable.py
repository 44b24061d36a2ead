"""A sink of one's own: who calls it, and with what."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.resources.control_store.store import ControlStore
from holdfast.streaming.lease import StreamLease
from holdfast.streaming.sinks.callable import CallableSink
from holdfast.streaming.sinks.ledger_writer import LedgerWriter
from holdfast.streaming.sinks.staging import Staged
from tests.builders.control_rows import an_entry, decide, fence_holder


class Rows:
    """The rows of an epoch in Spark's cache."""

    def unpersist(self) -> None:
        pass


@dataclass
class Outside:
    """What the functions of a user were called with."""

    calls: list[tuple[Any, ...]] = field(default_factory=list)

    def write(self, df: Rows, epoch: int, mode: str = "append") -> None:
        self.calls.append((epoch, mode))

    def write_fenced(self, df: Rows, epoch: int, token: int) -> None:
        self.calls.append((epoch, token))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ControlStore]:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as store:
        store.streams.declare("words", {}, "deployed")
        decide(store, 5)
        yield store


def a_sink(store: ControlStore, write: Callable[..., None]) -> CallableSink:
    lease = StreamLease(store, "words", "r1", ttl_seconds=60.0)
    assert lease.take()
    return CallableSink(write, LedgerWriter(store, "words", "r1", lease), Path("outbox"))


def staged() -> Staged:
    return Staged(files=(), rows=1, digest="d", frame=Rows())  # type: ignore[arg-type]


def test_a_function_that_asks_for_the_token_gets_it(store: ControlStore) -> None:
    outside = Outside()
    a_sink(store, outside.write_fenced).commit(staged(), 0)
    a_sink(store, outside.write).commit(staged(), 1)
    assert outside.calls == [(0, 1), (1, "append")]


def test_a_replica_that_was_paused_over_a_restore_calls_nothing(store: ControlStore) -> None:
    outside = Outside()
    sink = a_sink(store, outside.write)
    for epoch in range(4):
        store.ledger.commit(an_entry(epoch, replica="r2"))
    store.restores.begin(store.restores.request("words", epoch=1, snapshot=None, why="", run=""))
    with pytest.raises(PermanentError, match="its history is now 1, not 0"):
        sink.commit(staged(), 3)
    assert outside.calls == []


def test_a_replica_that_has_lost_its_lease_calls_nothing(store: ControlStore) -> None:
    outside = Outside()
    sink = a_sink(store, outside.write)
    assert fence_holder(store)
    with pytest.raises(TransientError, match="token 1, the newest 2"):
        sink.commit(staged(), 0)
    assert outside.calls == []
