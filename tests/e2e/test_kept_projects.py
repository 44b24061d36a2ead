"""What past versions left behind: a project that one of them made runs on with the code at hand."""

from pathlib import Path

import pytest

from holdfast.resources.project import open_project
from holdfast.resources.vault import catalogue
from tests.cli import holdfast_json
from tests.live.kept_project import ARCHIVES, unpack
from tests.live.stream import NAME, LiveStream, require_exact_output

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


@pytest.mark.parametrize("archive", sorted(ARCHIVES.glob("*.tar.gz")), ids=lambda path: path.name)
def test_a_project_of_a_past_version_is_read_verified_and_continued(
    archive: Path, tmp_path: Path
) -> None:
    unpack(archive, tmp_path)
    with open_project(tmp_path) as project:
        stream = LiveStream(project)
        try:
            project.ensure_object_store()
            last = stream.epoch()
            snapshots = project.store.snapshots.of(NAME)
            assert {line.playbook for line in project.store.journal.of(NAME)} == {"recover", "stop"}
            (status,) = holdfast_json(tmp_path, "status")["streams"]
            assert status["epoch_committed"] == last
            assert snapshots
            assert not [
                fault
                for snapshot in snapshots
                for fault in catalogue.verify(project, NAME, snapshot.id)
            ]
            stream.start()
            stream.await_epoch(last + 3)
            (log,) = tmp_path.glob(".holdfast/replicas/*/replica.log")
            assert "starting at epoch 0" not in log.read_text()
            require_exact_output(stream)
        finally:
            stream.close()
