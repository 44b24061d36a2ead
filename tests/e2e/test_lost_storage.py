"""The local disk is gone, and the newest snapshot is damaged."""

import shutil
import signal
from pathlib import Path

import pytest

from holdfast.ft_policies.doctor.findings import Severity
from holdfast.observation.doctor.examine import diagnose_stream
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
