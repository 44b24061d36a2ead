"""A driver that is killed while an epoch is half out.

`test_tiers` has all points of an epoch; `make chaos` kills ten times in every tier.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.faults import HALF_OUT, arm
from tests.live.stream import NAME, ON_ROCKSDB, LiveStream, a_live_stream
from tests.private_files import open_to_others, usual_umask

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


def test_kills_while_an_epoch_is_half_out_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    with usual_umask(), a_live_stream(tmp_path, resources=ON_ROCKSDB) as stream:
        stream.start()
        for point in HALF_OUT:
            arm(stream.root, point, after_epoch=stream.epoch() + 1)
            stream.await_failure()
            steps = stream.recover()
            assert [step.name for step in steps] == ["Fence", "Launch", "AwaitCatchUp"]
        stream.await_epoch(stream.epoch() + 3)
        stream.stop()
        proof = stream.prove()
        assert proof.holds, proof
        assert len(stream.project.store.replicas.of("words", live=False)) == len(HALF_OUT) + 1
        require_private_files(stream)
        require_proof_of_a_snapshot(stream)


def require_private_files(stream: LiveStream) -> None:
    """What the last driver has written is its owner's; its launcher, here the test, has made folder and output."""
    rows = stream.project.store.replicas.of(NAME, live=False)
    folder = max(rows, key=lambda row: row.registered_at).folder
    written = set(Path(folder).rglob("*"))
    assert {path.name for path in written} > {"replica.log", "spark.log"}
    assert set(open_to_others(Path(folder))) <= {folder, f"{folder}/driver.out"}


def require_proof_of_a_snapshot(stream: LiveStream) -> None:
    """A proof, by hand: the last snapshot is of the last epoch, so one before it is proven."""
    store = stream.project.store
    older = next(row for row in store.snapshots.of(NAME) if row.epoch < stream.epoch())
    command = [Path(sys.executable).with_name("holdfast"), "--project", stream.root]
    result = subprocess.run(
        [*command, "snapshots", "prove", NAME, older.id, "--json"], capture_output=True, check=False
    )
    assert result.returncode == 0, result.stderr
    steps = [step["step"] for step in json.loads(result.stdout)["steps"]]
    assert steps == ["RestoreScratch", "Recompute", "RecordProof"]
    proven = next(row for row in store.snapshots.of(NAME) if row.id == older.id)
    assert proven.proven_at is not None
    assert proven.proven_seconds is not None
    assert not any((stream.project.config.home / "drills").iterdir())
