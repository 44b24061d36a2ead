"""A control store that no replica can write to makes no primary look dead, though all can read that it is silent."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.ft_policies.errors import TransientError
from holdfast.ft_policies.health import DetectedBy, FailoverPolicy
from holdfast.ft_policies.tiers import PRIMARY, SECONDARY, Tier
from holdfast.resources.control_store.records import DesiredState, ReplicaRow, Slot
from holdfast.resources.control_store.store import ControlStore
from holdfast.streaming.lease import StreamLease
from holdfast.streaming.replica.failover import PrimaryMonitor, Takeover
from holdfast.streaming.replica.heartbeat import Heartbeat
from tests.builders.control_rows import register
from tests.fakes.clocks import SteppedClock

STREAMS = ("clicks", "orders", "rides", "words")
LEASE_SECONDS = 3.0
BEAT_SECONDS = 0.5
POLL_SECONDS = 0.0625  # its sums are exact


@dataclass
class Pair:
    """A primary and its secondary, which beat and look when a test says so."""

    primary: Heartbeat
    secondary: Heartbeat
    monitor: PrimaryMonitor


class Host:
    """Pairs of several streams on one control store, and the clock of all of them."""

    def __init__(self, store: ControlStore) -> None:
        self.store, self.clock = store, SteppedClock()
        self.pairs = [self._pair(stream) for stream in STREAMS]
        self.polls = 0

    @property
    def taken_over(self) -> int:
        return sum(pair.monitor.promotion is not None for pair in self.pairs)

    def run(self, seconds: float, *, primaries: bool = True) -> None:
        """Let time pass; at each beat the secondaries write first, and the primaries a poll later."""
        for _ in range(round(seconds / POLL_SECONDS)):
            self.clock.step(POLL_SECONDS)
            self.polls += 1
            phase = self.polls % round(BEAT_SECONDS / POLL_SECONDS)
            for pair in self.pairs:
                if phase == 0 or pair.secondary._due.is_set():
                    beat(pair.secondary)
                if phase == 1 and primaries:
                    beat(pair.primary)
                if pair.monitor.promotion is None:
                    pair.monitor.look()

    def _pair(self, stream: str) -> Pair:
        store = self.store
        store.streams.declare(stream, {}, Tier.ACTIVE_STANDBY)
        store.streams.desire(stream, DesiredState.RUNNING)
        primary = self._heartbeat(register(store, f"{stream}-1", stream=stream, desired=PRIMARY))
        standby = SECONDARY[Tier.ACTIVE_STANDBY]
        row = register(store, f"{stream}-2", stream=stream, slot=Slot.SECONDARY, desired=standby)
        secondary = self._heartbeat(row)
        assert primary.lease.take()
        monitor = PrimaryMonitor(
            store,
            secondary.lease,
            FailoverPolicy(lease_seconds=LEASE_SECONDS),
            Takeover(secondary),
            beat_seconds=BEAT_SECONDS,
            wake=threading.Event(),
            clock=self.clock,
        )
        return Pair(primary, secondary, monitor)

    def _heartbeat(self, row: ReplicaRow | None) -> Heartbeat:
        assert row is not None
        lease = StreamLease(
            self.store, row.stream, row.id, ttl_seconds=LEASE_SECONDS, clock=self.clock
        )
        return Heartbeat(
            self.store,
            row,
            lease,
            beat_seconds=BEAT_SECONDS,
            on_lost=lambda: None,
            exit_process=lambda: None,
            clock=self.clock,
        )


def beat(heartbeat: Heartbeat) -> None:
    heartbeat._due.clear()
    with suppress(TransientError):
        heartbeat.beat()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "control.db"


@pytest.fixture
def host(file: Path) -> Iterator[Host]:
    with ControlStore.open(f"sqlite:///{file}?timeout=0.001") as store:
        host = Host(store)
        host.run(2.0)
        assert host.taken_over == 0
        yield host


@pytest.mark.parametrize("seconds", [3.0, 4.0, 6.0])
def test_a_lock_that_is_held_for_longer_than_a_lease_lets_no_secondary_take_over(
    host: Host, file: Path, seconds: float
) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        host.run(seconds + 2 * POLL_SECONDS)  # the primaries have just tried in vain
        other.execute("ROLLBACK")
    host.run(2.0)
    assert host.taken_over == 0


def test_a_primary_that_is_silent_after_the_lock_falls_after_the_lease_time(
    host: Host, file: Path
) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        host.run(4.0)
        other.execute("ROLLBACK")
    host.run(LEASE_SECONDS + BEAT_SECONDS, primaries=False)
    assert host.taken_over == len(STREAMS)


def test_a_silent_primary_falls_after_the_lease_time_if_its_secondary_can_write(
    host: Host,
) -> None:
    host.run(LEASE_SECONDS - BEAT_SECONDS, primaries=False)
    assert host.taken_over == 0
    host.run(2 * BEAT_SECONDS + POLL_SECONDS, primaries=False)
    assert host.taken_over == len(STREAMS)
    promotions = [pair.monitor.promotion for pair in host.pairs]
    assert {each.failed.detected_by for each in promotions if each} == {DetectedBy.LEASE}


def test_a_secondary_beats_at_once_when_only_that_is_missing_for_a_takeover(host: Host) -> None:
    """Its own heartbeats come seldom: the lease time is over between two of them."""
    [first, *_] = host.pairs
    first.secondary._longest_gap_seconds = LEASE_SECONDS
    first.monitor.look()
    host.clock.step(LEASE_SECONDS + BEAT_SECONDS)
    first.monitor.look()
    assert first.monitor.promotion is None
    assert first.secondary._due.is_set()
    beat(first.secondary)
    first.monitor.look()
    assert first.monitor.promotion is not None
