"""The object store is away, or a drill blocks it."""

from pathlib import Path

import pytest

from holdfast.ft_policies.playbooks.drill import Fault
from holdfast.orchestration.playbooks.drill.drill import Drill
from tests.live.stream import NAME, LiveStream, a_live_stream

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


def test_a_stream_goes_on_while_the_object_store_is_away_and_catches_up(tmp_path: Path) -> None:
    with a_live_stream(tmp_path) as stream:
        stream.start()
        store = stream.project.store
        embedded = stream.project.embedded_s3()
        assert embedded is not None
        stream.wait(lambda: store.snapshots.newest(NAME) is not None, "a snapshot")
        embedded.stop()
        before = store.snapshots.newest(NAME)
        assert before is not None

        stream.await_epoch(stream.epoch() + 12)
        during = store.snapshots.newest(NAME)
        assert during is not None
        assert during.epoch <= before.epoch + 4, "a snapshot was shipped to nowhere"

        embedded.ensure()
        reached = stream.epoch()

        def caught_up() -> bool:
            newest = store.snapshots.newest(NAME)
            return newest is not None and newest.epoch >= reached

        stream.wait(caught_up, "snapshot that has caught up")
        require_drill_without_object_store(stream)
        stream.stop()
        proof = stream.prove()
        assert proof.holds, proof


def require_drill_without_object_store(stream: LiveStream) -> None:
    """Cut off on purpose, the stream goes on, and ships again when the cut is over."""
    primary = stream.primary()
    drill = Drill(
        project=stream.project, stream=NAME, run="drill", fault=Fault.CUT_OFF, cut_off_seconds=4.0
    )
    *done, report = drill.steps()
    assert [step.name for step in done] == ["InjectFault", "AwaitBack"]
    assert stream.primary().id == primary.id
    assert "a drill blocks the object store" in (Path(primary.folder) / "replica.log").read_text()
    assert (
        0.0
        < report.result.as_dict()["observed_seconds"]
        < report.result.as_dict()["objective_seconds"]
    )
    assert report.result.as_dict()["healed_seconds"] > 0.0
