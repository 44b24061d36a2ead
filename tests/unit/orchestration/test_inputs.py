"""Which input files can be deleted: those that no stream can ever read again, and no others."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.ft_policies.errors import PermanentError
from holdfast.orchestration.inputs import delete_unneeded, read_inputs
from holdfast.resources.control_store.records import EpochProposal
from holdfast.resources.project import Project
from tests.builders.recorded_stream import SHIPPED, a_restorable_stream
from tests.builders.streams import CLICKS
from tests.fakes.projects import SimulatedProject, simulated_projects

SOURCE = {"kind": "files", "path": "input", "format": "jsonl", "schema": "id bigint"}
EPOCHS = 8
COVERED = [f"{epoch}.jsonl" for epoch in range(min(SHIPPED))]
"""The files of the epochs before the oldest snapshot."""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[SimulatedProject]:
    """A stream with a file an epoch, all decided before the restore window, and one file that waits."""
    projects = simulated_projects(tmp_path, source=SOURCE)
    folder = tmp_path / "input"
    folder.mkdir()
    for number in range(EPOCHS + 1):
        (folder / f"{number}.jsonl").write_text(f'{{"id": {number}}}\n')
    (folder / "notes.txt").write_text("not input")
    with projects.open() as project:
        decide(project, CLICKS, EPOCHS)
        a_restorable_stream(project)
        age(project)
        yield project


def decide(project: Project, stream: str, epochs: int) -> None:
    for epoch in range(epochs):
        stat = (project.config.root / "input" / f"{epoch}.jsonl").stat()
        file = {"name": f"{epoch}.jsonl", "size": stat.st_size, "changed_ns": stat.st_mtime_ns}
        project.store.epochs.propose(
            EpochProposal(
                stream=stream,
                epoch=epoch,
                start={},
                end={},
                input={"files": [file]},
                rows=1,
                token=1,
                proposer="r1",
            )
        )


def age(project: Project) -> None:
    with project.store._database.write() as connection:
        connection.exec_driver_sql("UPDATE epochs SET decided_at = 1.0")


def unneeded(project: Project) -> list[str]:
    return [file.name for file in read_inputs(project, CLICKS).unneeded]


def present(project: Project) -> list[str]:
    return sorted(path.name for path in (project.config.root / "input").iterdir())


def test_files_of_epochs_before_the_oldest_snapshot_are_not_needed(project: Project) -> None:
    inputs = read_inputs(project, CLICKS)
    assert [file.name for file in inputs.unneeded] == COVERED
    assert inputs.first_epoch == min(SHIPPED)
    assert len(inputs.needed) == EPOCHS + 1 - len(COVERED)


def test_exactly_these_files_are_deleted(project: Project) -> None:
    before = present(project)
    delete_unneeded(project, read_inputs(project, CLICKS))
    assert present(project) == [name for name in before if name not in COVERED]
    assert unneeded(project) == []


def test_a_file_of_a_used_name_with_other_content_is_not_deleted(project: Project) -> None:
    inputs = read_inputs(project, CLICKS)
    (project.config.root / "input" / COVERED[0]).write_text('{"id": 100}\n')
    delete_unneeded(project, inputs)
    assert COVERED[0] in present(project)
    assert COVERED[0] not in unneeded(project)


def test_within_the_restore_window_everything_is_needed(project: Project) -> None:
    with project.store._database.write() as connection:
        connection.exec_driver_sql("UPDATE epochs SET decided_at = 4e9")
    assert unneeded(project) == []


def test_a_file_that_another_stream_has_not_read_is_needed(tmp_path: Path) -> None:
    projects = simulated_projects(tmp_path, CLICKS, "other", source=SOURCE)
    (tmp_path / "input").mkdir()
    for number in range(EPOCHS):
        (tmp_path / "input" / f"{number}.jsonl").write_text("{}\n")
    with projects.open() as project:
        decide(project, CLICKS, EPOCHS)
        a_restorable_stream(project)
        age(project)
        assert unneeded(project) == []


def test_a_stream_without_files_is_refused(tmp_path: Path) -> None:
    with (
        simulated_projects(tmp_path).open() as project,
        pytest.raises(PermanentError, match="has no input files"),
    ):
        read_inputs(project, CLICKS)
