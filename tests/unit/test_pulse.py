"""What a replica says of itself, and by which token."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from resources.control.store import ControlStore
from streaming.replica.heartbeat import Pulse
from tests.support.control_builders import register
from tests.support.standbys import until


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ControlStore]:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as store:
        yield store


def a_pulse(store: ControlStore, *, beat_seconds: float = 0.5) -> Pulse:
    row = register(store, "r1")
    assert row is not None
    return Pulse(store, row, beat_seconds=beat_seconds, lease_seconds=600.0, on_lost=lambda: None)


def test_a_replica_without_its_lease_keeps_its_token(store: ControlStore) -> None:
    pulse = a_pulse(store)
    assert pulse.take_lease()
    mine = pulse.token()
    pulse.release_lease()
    other = store.leases.take(pulse.row.stream, "r2", 60.0)
    assert other is not None
    assert (pulse.lease, pulse.token()) == (None, mine)
    assert other.token > mine > 0


def test_another_epoch_is_told_without_waiting_for_the_next_beat(store: ControlStore) -> None:
    pulse = a_pulse(store, beat_seconds=600.0)
    pulse.start()
    try:
        for epoch in (7, 8):
            pulse.say(epoch=epoch)
            until(lambda told=epoch: store.replicas.get("r1").epoch == told)
    finally:
        pulse.stop()
