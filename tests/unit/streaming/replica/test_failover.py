"""How a secondary monitors its primary: what counts as failed, by which clock, and when it takes over."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from holdfast.ft_policies.errors import TransientError
from holdfast.ft_policies.health import DetectedBy, FailoverPolicy
from holdfast.ft_policies.tiers import OFF, PRIMARY, Switches
from holdfast.resources.control_store.records import Lease, ReplicaState, Slot
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.process import HOST, ProcessHandle
from holdfast.streaming.lease import StreamLease
from holdfast.streaming.replica.failover import (
    FailedPrimary,
    LeaseSilence,
    PrimaryMonitor,
    Promotion,
    Takeover,
)
from holdfast.streaming.replica.heartbeat import Heartbeat
from tests.builders.control_rows import FailoverView, a_failover, held_lease
from tests.fakes.clocks import SteppedClock, shift_clock

LEASE_SECONDS = 3.0
BEAT_SECONDS = 0.5
POLL_SECONDS = 0.0625  # its sums are exact


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ControlStore]:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as opened:
        yield opened


@pytest.fixture
def look(store: ControlStore) -> FailoverView:
    return a_failover(store)


@dataclass
class OwnBeats:
    """The heartbeats of the secondary: it can always write."""

    clock: SteppedClock

    @property
    def last_beat_at(self) -> float:
        return self.clock.at

    @property
    def written_seconds(self) -> float:
        return self.clock.at

    def beat_soon(self) -> None:
        """It has just beaten."""


@dataclass
class RecordedTakeovers:
    """Takes nothing over, and keeps what it was asked to."""

    heartbeat: OwnBeats
    failed: list[FailedPrimary] = field(default_factory=list)

    def attempt(self, failed: FailedPrimary) -> Promotion | None:
        self.failed.append(failed)
        return None


class Monitored:
    """A monitor on a clock that a test moves, and what it has found failed."""

    def __init__(self, store: ControlStore, lease_seconds: float = LEASE_SECONDS) -> None:
        self.clock = SteppedClock()
        self.takeovers = RecordedTakeovers(OwnBeats(self.clock))
        self.wake = threading.Event()
        self.monitor = PrimaryMonitor(
            store,
            StreamLease(store, "words", "s1", ttl_seconds=lease_seconds),
            FailoverPolicy(lease_seconds=lease_seconds),
            self.takeovers,  # type: ignore[arg-type]
            beat_seconds=BEAT_SECONDS,
            wake=self.wake,
            clock=self.clock,
        )

    def look_after(self, seconds: float) -> list[FailedPrimary]:
        self.clock.step(seconds)
        self.monitor.look()
        return self.takeovers.failed


def a_lease(renewed_at: float, token: int = 1) -> Lease:
    return Lease(
        stream="words",
        holder="p1",
        token=token,
        taken_at=0.0,
        renewed_at=renewed_at,
        expires_at=renewed_at + LEASE_SECONDS,
    )


class Silence(LeaseSilence):
    """As a replica counts it that can write all the time."""

    def __init__(self, clock: SteppedClock) -> None:
        super().__init__(clock)
        self.stepped = clock

    def look_now(self, read: Callable[[], Lease | None]) -> None:
        self.look(read, written_seconds=self.stepped.at)


def test_silence_counts_between_looks_that_saw_the_same() -> None:
    clock = SteppedClock()
    silence = Silence(clock)
    silence.look_now(lambda: a_lease(10.0))
    clock.step(2.0)
    silence.look_now(lambda: a_lease(10.0))
    assert silence.seconds == 2.0
    silence.look_now(lambda: a_lease(10.5))
    assert silence.seconds == 0.0


def test_silence_does_not_count_while_the_replica_itself_cannot_write() -> None:
    clock = SteppedClock()
    silence = Silence(clock)
    silence.look(lambda: a_lease(10.0), written_seconds=7.0)
    clock.step(60.0)
    silence.look(lambda: a_lease(10.0), written_seconds=8.0)
    assert (silence.seconds, silence.observed_seconds) == (1.0, 60.0)


def test_silence_does_not_care_what_time_the_lease_tells() -> None:
    clock = SteppedClock()
    silence = Silence(clock)
    silence.look_now(lambda: a_lease(1e9))
    clock.step(1.0)
    silence.look_now(
        lambda: a_lease(0.0)
    )  # another clock, minutes or years off: still a sign of life
    assert silence.seconds == 0.0


def test_a_control_store_that_does_not_answer_makes_no_primary_look_dead() -> None:
    clock = SteppedClock()
    silence = Silence(clock)
    silence.look_now(lambda: a_lease(10.0))

    def away() -> Lease:
        raise TransientError("away", hint="wait")

    clock.step(60.0)
    silence.look_now(lambda: a_lease(10.0))
    with pytest.raises(TransientError):
        silence.look_now(away)
    assert silence.seconds == 0.0
    silence.look_now(lambda: a_lease(10.0))
    assert silence.seconds == 0.0


def test_a_slow_answer_does_not_count_as_silence() -> None:
    clock = SteppedClock()
    silence = Silence(clock)
    silence.look_now(lambda: a_lease(10.0))

    def slow() -> Lease:
        clock.step(30.0)
        return a_lease(10.0)

    silence.look_now(slow)
    assert silence.seconds == 0.0


def test_a_primary_that_renews_stays(store: ControlStore, look: FailoverView) -> None:
    monitored, lease = Monitored(store), look.lease
    for second in range(20):
        assert monitored.look_after(1.0) == []
        assert lease is not None
        shift_clock(store, float(second))  # some clocks stand still for as long as three renewals
        lease = store.leases.renew(lease, LEASE_SECONDS)


def test_a_silent_primary_falls_after_the_lease_time(
    store: ControlStore, look: FailoverView
) -> None:
    monitored = Monitored(store)
    assert monitored.look_after(0.0) == []
    assert monitored.look_after(LEASE_SECONDS - 0.1) == []
    (failed,) = monitored.look_after(0.6)
    assert (failed.primary, failed.lease) == (look.primary, look.lease)
    assert failed.detected_by is DetectedBy.LEASE


@pytest.mark.parametrize("lease_seconds", [1.0, 3.0, 3.2])
def test_one_that_falls_silent_right_after_a_look_is_seen_half_a_beat_after_the_lease_time(
    store: ControlStore, look: FailoverView, lease_seconds: float
) -> None:
    monitored = Monitored(store, lease_seconds)
    assert monitored.look_after(0.0) == []
    assert store.leases.renew(held_lease(look), lease_seconds) is not None
    polls = next(n for n in range(1, 100) if monitored.look_after(POLL_SECONDS))
    longest = lease_seconds + BEAT_SECONDS / 2 + POLL_SECONDS
    assert lease_seconds < polls * POLL_SECONDS < longest


def test_a_silent_one_that_cannot_be_followed_is_tried_again_every_half_beat(
    store: ControlStore, look: FailoverView
) -> None:
    monitored = Monitored(store)
    monitored.look_after(0.0)
    assert len(monitored.look_after(LEASE_SECONDS)) == 1
    tries = [len(monitored.look_after(POLL_SECONDS)) for _ in range(8)]
    assert tries == [1, 1, 1, 2, 2, 2, 2, 3]


@pytest.fixture
def child(store: ControlStore) -> Iterator["subprocess.Popen[bytes]"]:
    """The process of a primary on this host."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        store.replicas.register(
            id="p1", stream="words", slot=Slot.PRIMARY, desired=PRIMARY, host=HOST, folder="."
        )
        born = ProcessHandle.of(process.pid).started_at
        store.replicas.record_process("p1", pid=process.pid, pid_started_at=born)
        yield process
        process.kill()


def test_a_primary_whose_process_is_gone_falls_at_once(
    store: ControlStore, child: "subprocess.Popen[bytes]"
) -> None:
    monitored = Monitored(store)
    assert monitored.look_after(0.0) == []
    child.kill()
    child.wait()
    (failed,) = monitored.look_after(0.05)
    assert "gone" in failed.reason
    assert failed.detected_by is DetectedBy.PROCESS


def test_one_that_cannot_be_followed_yet_is_tried_again_soon_and_not_at_every_look(
    store: ControlStore, child: "subprocess.Popen[bytes]"
) -> None:
    child.kill()
    child.wait()
    monitored = Monitored(store)
    assert len(monitored.look_after(0.0)) == 1
    tries = [len(monitored.look_after(POLL_SECONDS)) for _ in range(8)]
    assert tries == [1, 1, 1, 2, 2, 2, 2, 3]
    assert not monitored.wake.is_set()  # nothing has changed for the replica


def a_heartbeat(store: ControlStore, replica: str) -> Heartbeat:
    store.replicas.desire(replica, Switches(deploy=True))
    row = store.replicas.get(replica)
    assert row is not None
    lease = StreamLease(store, row.stream, row.id, ttl_seconds=LEASE_SECONDS)
    return Heartbeat(
        store, row, lease, beat_seconds=0.5, on_lost=lambda: None, exit_process=lambda: None
    )


def a_failed_primary(store: ControlStore) -> FailedPrimary:
    monitored = Monitored(store)
    monitored.look_after(0.0)
    (failed,) = monitored.look_after(LEASE_SECONDS)
    return failed


def test_a_promoted_secondary_holds_lease_and_slot(store: ControlStore, look: FailoverView) -> None:
    failed, heartbeat = a_failed_primary(store), a_heartbeat(store, look.secondary)
    promotion = Takeover(heartbeat).attempt(failed)
    assert promotion is not None
    assert heartbeat.lease.token == promotion.token == 2
    heartbeat.beat()
    assert heartbeat.row.slot is Slot.PRIMARY
    assert not heartbeat.lost.is_set()
    old = store.replicas.get(look.primary or "")
    assert old is not None
    assert old.state is ReplicaState.FENCED


def test_a_primary_that_renews_in_the_last_moment_keeps_its_place(
    store: ControlStore, look: FailoverView
) -> None:
    failed, heartbeat = a_failed_primary(store), a_heartbeat(store, look.secondary)
    assert look.lease is not None
    assert store.leases.renew(look.lease, LEASE_SECONDS) is not None
    assert Takeover(heartbeat).attempt(failed) is None
    assert heartbeat.lease.token == 0


def test_a_secondary_that_was_asked_to_leave_takes_nothing_over(
    store: ControlStore, look: FailoverView
) -> None:
    failed, heartbeat = a_failed_primary(store), a_heartbeat(store, look.secondary)
    store.replicas.desire(look.secondary, OFF)
    heartbeat.beat()
    assert Takeover(heartbeat).attempt(failed) is None


def test_a_takeover_whose_answer_got_lost_counts(store: ControlStore, look: FailoverView) -> None:
    failed, heartbeat = a_failed_primary(store), a_heartbeat(store, look.secondary)
    first = Takeover(heartbeat).attempt(failed)
    again = Takeover(heartbeat).attempt(failed)
    assert first is not None
    assert again is not None
    assert again.token == first.token
