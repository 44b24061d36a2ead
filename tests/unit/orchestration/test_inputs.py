"""Which input files can be deleted: those that no stream can ever read again, and no others."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import dagster as dg
import pytest
import yaml

from holdfast.assets.growth import judge_input
from holdfast.configs.declarations.sources import FilesSource
from holdfast.ft_policies.errors import PermanentError
from holdfast.orchestration.inputs import delete_unneeded, name_place, read_inputs
from holdfast.orchestration.retention import prune_file_names, sample_growth
from holdfast.resources.control_store.records import DesiredState, EpochProposal, SnapshotState
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.project import Project
from holdfast.resources.vault.objects.ownership import OWNER_KEY
from holdfast.streaming.sources.assigned import find_taken
from holdfast.streaming.sources.folder import ListedFile
from tests.builders.control_rows import a_snapshot, record_snapshot
from tests.builders.recorded_stream import SHIPPED, a_restorable_stream
from tests.builders.streams import CLICKS, a_wanted_stream
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


def decide(
    project: Project, stream: str, epochs: int, end: Mapping[str, object] | None = None
) -> None:
    for epoch in range(epochs):
        stat = (project.config.root / "input" / f"{epoch}.jsonl").stat()
        file = {"name": f"{epoch}.jsonl", "size": stat.st_size, "changed_ns": stat.st_mtime_ns}
        project.store.epochs.propose(
            EpochProposal(
                stream=stream,
                epoch=epoch,
                start={},
                end=dict(end or {}),
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


def test_snapshots_that_are_all_damaged_need_every_file(project: Project) -> None:
    vault = project.vault(CLICKS)
    for record in vault.list():
        record_snapshot(project.store, vault, CLICKS, record.id)
        project.store.snapshots.mark(CLICKS, record.id, SnapshotState.DAMAGED, "lost pack")
    assert unneeded(project) == []


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


def test_the_oldest_input_of_a_restore_is_checked_and_sampled(project: Project) -> None:
    for epoch in SHIPPED:
        project.store.snapshots.record(a_snapshot(f"s{epoch}", epoch, stream=CLICKS))
    passed = judge_input(project, CLICKS)
    assert passed.passed, passed.description
    assert f"{min(SHIPPED) + 1}.jsonl of epoch {min(SHIPPED) + 1}" in (passed.description or "")
    (project.config.root / "input" / f"{min(SHIPPED) + 1}.jsonl").unlink()
    failed = judge_input(project, CLICKS)
    assert not failed.passed
    assert "keep input at least as long" in (failed.description or "")
    sample_growth(project, CLICKS)
    samples = project.store.samples.latest(CLICKS)
    assert samples[SampleName.REPLAY_FLOOR].value == min(SHIPPED)
    assert SampleName.REPLAY_MARGIN_SECONDS not in samples


def test_the_margin_to_what_the_source_keeps_is_a_sample_and_an_alarm(tmp_path: Path) -> None:
    projects = simulated_projects(tmp_path, source={**SOURCE, "kept_for": "1d"})
    (tmp_path / "input").mkdir()
    for number in range(EPOCHS):
        file = tmp_path / "input" / f"{number}.jsonl"
        file.write_text("{}\n")
        os.utime(file, (1e9, 1e9))
    with projects.open() as project:
        decide(project, CLICKS, EPOCHS)
        a_restorable_stream(project)
        result = judge_input(project, CLICKS)
        sample_growth(project, CLICKS)
        margin = project.store.samples.latest(CLICKS)[SampleName.REPLAY_MARGIN_SECONDS].value
    assert not result.passed
    assert result.severity is dg.AssetCheckSeverity.WARN
    assert "the source keeps it for 24 h" in (result.description or "")
    assert margin < 0


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


def edit_source(project: Project, stream: str, **changes: object) -> None:
    """Change the source in the file of a stream, without a migration."""
    file = project.config.root / "configs" / "streams" / f"{stream}.yaml"
    declared = yaml.safe_load(file.read_text())
    declared["source"] = {**declared["source"], **changes}
    file.write_text(yaml.safe_dump(declared))


def test_a_file_that_a_stream_reads_until_it_is_migrated_is_needed(tmp_path: Path) -> None:
    projects = simulated_projects(tmp_path, CLICKS, "other", source=SOURCE)
    (tmp_path / "input").mkdir()
    (tmp_path / "elsewhere").mkdir()
    for number in range(EPOCHS):
        (tmp_path / "input" / f"{number}.jsonl").write_text("{}\n")
    with projects.open() as project:
        a_wanted_stream(project, "other")
        decide(project, CLICKS, EPOCHS)
        a_restorable_stream(project)
        age(project)
        edit_source(project, "other", path="elsewhere")
    with projects.open() as project:
        assert unneeded(project) == []
        (tmp_path / "configs" / "streams" / "other.yaml").unlink()
    with projects.open() as project:
        assert unneeded(project) == []
        project.store.streams.desire("other", DesiredState.STOPPED)
        assert unneeded(project) == COVERED


@pytest.mark.parametrize("path", ["s3://bucket/in", "s3://bucket/in/"])
def test_one_prefix_has_one_spelling(project: Project, path: str) -> None:
    declared = FilesSource.model_validate({**SOURCE, "path": path})
    assert name_place(project, declared) == "bucket/in"


def test_snapshots_of_another_project_do_not_make_input_unneeded(tmp_path: Path) -> None:
    projects = simulated_projects(tmp_path, source=SOURCE)
    (tmp_path / "input").mkdir()
    for number in range(EPOCHS):
        (tmp_path / "input" / f"{number}.jsonl").write_text("{}\n")
    with projects.open() as project:
        decide(project, CLICKS, EPOCHS)
        a_restorable_stream(project)
        age(project)
        assert unneeded(project) == COVERED
        with project.store._database.write() as connection:
            connection.exec_driver_sql("UPDATE identity SET id = 'another'")
    with projects.open() as project:
        with pytest.raises(PermanentError, match="belong to another project"):
            read_inputs(project, CLICKS)
        project.objects.delete([OWNER_KEY])
        assert unneeded(project) == []


def test_a_stream_without_files_is_refused(tmp_path: Path) -> None:
    with (
        simulated_projects(tmp_path).open() as project,
        pytest.raises(PermanentError, match="has no input files"),
    ):
        read_inputs(project, CLICKS)


@pytest.mark.parametrize("kept_for", [{"kept_for": "1d"}, {}], ids=["declared", "default"])
def test_names_of_files_that_the_source_has_deleted_long_ago_are_forgotten(
    tmp_path: Path, kept_for: dict[str, str]
) -> None:
    projects = simulated_projects(tmp_path, source={**SOURCE, **kept_for})
    (tmp_path / "input").mkdir()
    names = [f"{number}.jsonl" for number in range(EPOCHS)]
    for number, name in enumerate(names):
        (tmp_path / "input" / name).write_text("{}\n")
        if number < 6:
            os.utime(tmp_path / "input" / name, (1e9, 1e9))
    with projects.open() as project:
        decide(project, CLICKS, EPOCHS)
        a_restorable_stream(project)
        assert prune_file_names(project, CLICKS) == 0  # all epochs are kept
        project.store.retention.prune_epochs(CLICKS, before=4)
        assert prune_file_names(project, CLICKS) == 0  # the files are still there
        (tmp_path / "input").rename(tmp_path / "away")
        assert prune_file_names(project, CLICKS) == 0  # they may be there
        (tmp_path / "away").rename(tmp_path / "input")
        for name in names[1:]:
            (tmp_path / "input" / name).unlink()
        assert prune_file_names(project, CLICKS) == 3
        kept = {file.name for file in project.store.epoch_files.find(CLICKS, names)}
    assert kept == {names[0], *names[4:]}


def test_names_are_forgotten_only_behind_what_waits_and_never_of_a_disk_that_is_away(
    tmp_path: Path,
) -> None:
    projects = simulated_projects(tmp_path, source=SOURCE)
    folder = tmp_path / "input"
    folder.mkdir()
    names = [f"{number}.jsonl" for number in range(EPOCHS)]
    for number, name in enumerate(names):
        (folder / name).write_text("{}\n")
        os.utime(folder / name, (1e9 + number, 1e9 + number))
    with projects.open() as project:
        decide(project, CLICKS, EPOCHS, end={"files": EPOCHS, "mount": "/mnt/disk"})
        a_restorable_stream(project)
        project.store.retention.prune_epochs(CLICKS, before=6)
        for name in names:
            (folder / name).unlink()
        assert prune_file_names(project, CLICKS) == 0
        (folder / "waits.jsonl").write_text("{}\n")
        os.utime(folder / "waits.jsonl", (1e9 + 2, 1e9 + 2))
        assert prune_file_names(project, CLICKS) == 2
        waits = ListedFile("waits.jsonl", 3, (10**9 + 2) * 10**9)
        assert find_taken(project.store, CLICKS, [waits]) == set()
        back = ListedFile(names[1], 3, (10**9 + 1) * 10**9)
        assert find_taken(project.store, CLICKS, [back]) == {names[1]}
