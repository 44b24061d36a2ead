"""A replica without Spark: its switches, its gate and its lease are real, its queries are not."""

import threading
from pathlib import Path
from typing import Any

from holdfast.configs.declarations.deployment import EmbeddedObjectStore
from holdfast.ft_policies.health import FailoverPolicy
from holdfast.ft_policies.tiers import PRIMARY, Switches
from holdfast.resources.control_store.records import Slot
from holdfast.resources.control_store.store import ControlStore
from holdfast.streaming.gate import Gate
from holdfast.streaming.lease import StreamLease
from holdfast.streaming.metrics import Sampler
from holdfast.streaming.query.query import RunningQuery
from holdfast.streaming.replica.failover import PrimaryMonitor, Takeover
from holdfast.streaming.replica.heartbeat import Departure, Heartbeat
from holdfast.streaming.replica.output import Sending
from holdfast.streaming.replica.processor import Processor
from holdfast.streaming.replica.reconciler import Reconciler
from holdfast.streaming.sinks.sender import Sender
from holdfast.streaming.spec import ReplicaSpec
from holdfast.streaming.state.follower import RestoredState
from holdfast.streaming.state.standby import Standby
from tests.builders.control_rows import register
from tests.builders.projects import a_declaration
from tests.fakes.queries import EasyQuery, EasyQuerySwap
from tests.fakes.sinks import SimulatedEntries, SimulatedLedger, SimulatedSink, SimulatedTable

REPLICA = "words-2"
LEASE_SECONDS = 60.0


class SendingWithoutSnapshots(Sending):
    """Ships nothing: there is no checkpoint."""

    def ship(self, query: RunningQuery) -> None:
        """Leave it out."""


def a_reconciler(
    home: Path, store: ControlStore, *, slot: Slot = Slot.PRIMARY, desired: Switches = PRIMARY
) -> Reconciler:
    """That of the replica `words-2`, which has taken nothing yet; its heartbeat beats when a test says so."""
    row = register(store, REPLICA, slot=slot, desired=desired)
    assert row is not None
    spec, sampler, wake = a_spec(home, store), Sampler(store, "words", REPLICA), threading.Event()
    lease = StreamLease(store, "words", REPLICA, ttl_seconds=LEASE_SECONDS)
    heartbeat = Heartbeat(
        store, row, lease, beat_seconds=0.5, on_lost=lambda: None, exit_process=lambda: None
    )
    departure = Departure(heartbeat, threading.Event())
    nothing: Any = None
    entries = SimulatedEntries(SimulatedLedger(), REPLICA)
    sink: Any = SimulatedSink(SimulatedTable(), entries)
    sender = Sender(sink, entries, sending=False)
    start = RestoredState(checkpoint=spec.new_checkpoint(), manifest=None, seconds=0.1)
    standby = Standby(spec, nothing, store, sampler, start)
    queries = EasyQuerySwap(spec, nothing, sender)
    policy = FailoverPolicy(lease_seconds=LEASE_SECONDS)
    return Reconciler(
        store=store,
        heartbeat=heartbeat,
        departure=departure,
        monitor=PrimaryMonitor(
            store, lease, policy, Takeover(heartbeat), beat_seconds=0.5, wake=wake
        ),
        standby=standby,
        processor=Processor(spec, store, departure, Gate(spec.folder), standby, queries, sampler),
        sending=SendingWithoutSnapshots(spec, store, nothing, nothing, heartbeat, sender, sampler),
        sampler=sampler,
        spare=None,
        wake=wake,
    )


def query_of(processor: Processor) -> EasyQuery:
    """Its query, for a test to move on."""
    current: Any = processor.queries.current
    assert isinstance(current, EasyQuery)
    return current


def a_spec(home: Path, store: ControlStore, **declared: object) -> ReplicaSpec:
    """The replica `words-2` of the stream `words`, in a folder of its own."""
    folder = home / "replicas" / "words-2"
    folder.mkdir(parents=True)
    return ReplicaSpec(
        replica="words-2",
        stream=a_declaration(name="words", **declared),
        control_url=store.url,
        home=home,
        folder=folder,
        table="",
        object_store=EmbeddedObjectStore(),
    )
