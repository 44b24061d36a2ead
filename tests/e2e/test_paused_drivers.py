"""A driver that is paused for longer than its lease, and one that is asked to end."""

import signal
from pathlib import Path

import psutil
import pytest

from holdfast.resources.control_store.records import DesiredState, ReplicaState
from holdfast.resources.process import find_process
from tests.live.stream import NAME, LiveStream, a_live_stream

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


def test_a_paused_driver_that_was_replaced_finds_that_it_lost_and_leaves(tmp_path: Path) -> None:
    with a_live_stream(tmp_path) as stream:
        stream.start()
        stream.await_epoch(3)
        paused = stream.signal(signal.SIGSTOP)
        stream.await_failure()
        assert stream.look().verdict.health == "disputed"
        steps = stream.recover()
        assert [step.name for step in steps] == ["Fence", "Launch", "AwaitCatchUp"]
        replaced_at = stream.epoch()

        process = find_process(paused)
        assert process is not None
        assert process.is_alive()
        psutil.Process(process.pid).send_signal(signal.SIGCONT)
        stream.wait(lambda: not process.is_alive(), "end of the replaced driver", 30)

        stream.await_epoch(replaced_at + 5)
        row = stream.project.store.replicas.get(paused.id)
        assert row is not None
        assert row.state is ReplicaState.FENCED
        _leaves_in_good_order_when_asked_to(stream)
        proof = stream.prove()
        assert proof.holds, proof


def _leaves_in_good_order_when_asked_to(stream: LiveStream) -> None:
    """SIGTERM: the epoch is finished, a last snapshot shipped, the lease free, the exit code 0."""
    store = stream.project.store
    store.streams.desire(NAME, DesiredState.STOPPED)
    replica = stream.signal(signal.SIGTERM)
    assert replica.pid is not None
    assert psutil.Process(replica.pid).wait(90) == 0
    ended, lease = store.replicas.get(replica.id), store.leases.get(NAME)
    assert ended is not None
    assert ended.state is ReplicaState.STOPPED
    assert lease is not None
    assert lease.holder is None
    newest = store.snapshots.newest(NAME)
    assert newest is not None
    assert newest.epoch == stream.epoch()
    assert stream.project.vault(NAME).verify(newest.id) == []
