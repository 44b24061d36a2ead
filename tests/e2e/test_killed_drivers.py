"""kill -9 at every point of an epoch, one after the other: each epoch exactly once.

`make chaos` kills ten times in every tier.
"""

from pathlib import Path

import pytest

from tests.support.faults import POINTS, arm
from tests.support.live_stream import a_live_stream

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


def test_kills_at_every_point_of_an_epoch_lose_nothing_and_double_nothing(
    tmp_path: Path,
) -> None:
    with a_live_stream(tmp_path) as stream:
        stream.start()
        for point in POINTS:
            arm(stream.root, point, after_epoch=stream.epoch() + 1)
            stream.await_failure()
            steps = stream.recover()
            assert [step.name for step in steps] == ["Fence", "Launch", "AwaitLevel"]
        stream.await_epoch(stream.epoch() + 3)
        stream.stop()
        proof = stream.prove()
        assert proof.holds, proof
        assert len(stream.world.store.replicas.of("words", live=False)) == len(POINTS) + 1
