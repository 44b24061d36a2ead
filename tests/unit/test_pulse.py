"""What a replica says of itself, and by which token."""

from pathlib import Path

from resources.control.store import ControlStore
from streaming.pulse import Pulse
from tests.support.control_builders import register
from tests.support.standbys import until


def test_a_replica_without_its_lease_keeps_its_token(tmp_path: Path) -> None:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as store:
        register(store, "r1")
        row = store.replicas.get("r1")
        assert row is not None
        pulse = Pulse(store, row, beat_seconds=0.5, lease_seconds=60.0, on_lost=lambda: None)
        assert pulse.take_lease()
        mine = pulse.token()
        pulse.release_lease()
        other = store.leases.take(row.stream, "r2", 60.0)
        assert other is not None
        assert (pulse.lease, pulse.token()) == (None, mine)
        assert other.token > mine > 0


def test_another_epoch_is_told_at_once(tmp_path: Path) -> None:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as store:
        register(store, "r1")
        row = store.replicas.get("r1")
        assert row is not None
        pulse = Pulse(store, row, beat_seconds=600.0, lease_seconds=600.0, on_lost=lambda: None)
        pulse.start()
        try:
            for epoch in (7, 8):
                pulse.say(epoch=epoch)
                until(lambda told=epoch: store.replicas.get("r1").epoch == told)
        finally:
            pulse.stop()
