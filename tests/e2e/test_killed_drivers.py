"""A driver that is killed while an epoch is half out, and one that is paused for longer than its lease.

`test_tiers` has all points of an epoch; `make chaos` kills ten times in every tier.
"""

import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from resources.control.records import DesiredState, ReplicaState
from streaming.processes import process_of
from tests.support.faults import HALF_OUT, arm
from tests.support.live_stream import NAME, ON_ROCKSDB, LiveStream, a_live_stream

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


def test_kills_while_an_epoch_is_half_out_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    with a_live_stream(tmp_path, resources=ON_ROCKSDB) as stream:
        stream.start()
        for point in HALF_OUT:
            arm(stream.root, point, after_epoch=stream.epoch() + 1)
            stream.await_failure()
            steps = stream.recover()
            assert [step.name for step in steps] == ["Fence", "Launch", "AwaitLevel"]
        stream.await_epoch(stream.epoch() + 3)
        stream.stop()
        proof = stream.prove()
        assert proof.holds, proof
        assert len(stream.world.store.replicas.of("words", live=False)) == len(HALF_OUT) + 1
        demand_proof_of_a_snapshot(stream)


def demand_proof_of_a_snapshot(stream: LiveStream) -> None:
    """The restore drill, by hand: the last snapshot is of the last epoch, so one before it is proven."""
    store = stream.world.store
    older = next(row for row in store.snapshots.of(NAME) if row.epoch < stream.epoch())
    command = [Path(sys.executable).with_name("holdfast"), "--project", stream.root]
    told = subprocess.run(
        [*command, "snapshots", "prove", NAME, older.id, "--json"], capture_output=True, check=False
    )
    assert told.returncode == 0, told.stderr
    steps = [step["step"] for step in json.loads(told.stdout)["steps"]]
    assert steps == ["RestoreScratch", "Recompute", "NoteProof"]
    proven = next(row for row in store.snapshots.of(NAME) if row.id == older.id)
    assert proven.proven_at is not None
    assert proven.proven_seconds is not None
    assert not any((stream.world.project.home / "drills").iterdir())


def test_a_paused_driver_that_was_replaced_finds_that_it_lost_and_leaves(tmp_path: Path) -> None:
    with a_live_stream(tmp_path) as stream:
        stream.start()
        stream.await_epoch(3)
        paused = stream.signal(signal.SIGSTOP)
        stream.await_failure()
        assert stream.look().verdict.health == "disputed"
        steps = stream.recover()
        assert [step.name for step in steps] == ["Fence", "Launch", "AwaitLevel"]
        replaced_at = stream.epoch()

        process = process_of(paused)
        assert process is not None
        assert process.is_alive()
        psutil.Process(process.pid).send_signal(signal.SIGCONT)
        stream.wait(lambda: not process.is_alive(), "end of the replaced driver", 30)

        stream.await_epoch(replaced_at + 5)
        row = stream.world.store.replicas.get(paused.id)
        assert row is not None
        assert row.state is ReplicaState.FENCED
        _leaves_in_good_order_when_told_to(stream)
        proof = stream.prove()
        assert proof.holds, proof


def _leaves_in_good_order_when_told_to(stream: LiveStream) -> None:
    """SIGTERM: the epoch is finished, a last snapshot shipped, the lease free, the exit code 0."""
    store = stream.world.store
    store.streams.desire(NAME, DesiredState.STOPPED)
    told = stream.signal(signal.SIGTERM)
    assert told.pid is not None
    assert psutil.Process(told.pid).wait(90) == 0
    ended, lease = store.replicas.get(told.id), store.leases.get(NAME)
    assert ended is not None
    assert ended.state is ReplicaState.STOPPED
    assert lease is not None
    assert lease.holder is None
    newest = store.snapshots.newest(NAME)
    assert newest is not None
    assert newest.epoch == stream.epoch()
    assert stream.world.vault(NAME).verify(newest.id) == []
