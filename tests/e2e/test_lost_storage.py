"""The local disk is gone, the newest snapshot is damaged, the object store is away."""

import shutil
import signal
from pathlib import Path

import pytest

from holdfast.ft_policies.doctor.findings import Severity
from holdfast.ft_policies.playbooks.drill import Fault
from holdfast.observation.doctor.examine import diagnose_stream
from holdfast.orchestration.playbooks.drill import Drill
from tests.live.stream import NAME, LiveStream, a_live_stream

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


def test_a_stream_comes_back_from_the_object_store_alone_past_a_damaged_snapshot(
    tmp_path: Path,
) -> None:
    with a_live_stream(tmp_path) as stream:
        stream.start()
        vault = stream.project.vault(NAME)
        stream.wait(lambda: len(vault.list()) >= 3, "three snapshots")
        lost = stream.signal(signal.SIGKILL)
        stream.await_failure()
        stream.wait(lambda: not stream.left(), "end of its Java, which writes until then", 30)
        shutil.rmtree(lost.folder)
        newest, second = vault.list()[:2]
        packs = stream.project.config.home / "objects" / "holdfast" / NAME / "packs"
        (pack,) = packs.glob(f"{newest.id}*.pack")
        pack.write_bytes(pack.read_bytes()[:-7])

        stream.recover()

        restored = stream.primary()
        log = (Path(restored.folder) / "replica.log").read_text()
        assert f"snapshot {newest.id} is damaged" in log
        assert f"restored snapshot {second.id}" in log
        incidents = stream.project.store.incidents.of(NAME, open_only=False)
        assert [i.detail["snapshot"] for i in incidents if i.kind == "snapshot_damaged"] == [
            newest.id
        ]
        stream.await_epoch(stream.epoch() + 3)
        require_repair_by_the_doctor(stream, newest.id)
        stream.stop()
        proof = stream.prove()
        assert proof.holds, proof


def require_repair_by_the_doctor(stream: LiveStream, damaged: str) -> None:
    """While the stream runs, the doctor finds the damaged snapshot alone and sets it aside."""
    assert severe(stream) == [f"snapshot {damaged}"]
    assert "SetAsideSnapshots" in stream.repair()
    assert severe(stream) == []


def severe(stream: LiveStream) -> list[str]:
    """Where something is worth more than a note: one that is killed may leave files behind."""
    findings = diagnose_stream(stream.project, NAME, deep=True).findings
    return [finding.where for finding in findings if finding.severity is not Severity.NOTE]


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
