"""Restores and forks of a stream whose output was merged and whose log is short, by the playbooks."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from holdfast.assets.outputs import audit
from holdfast.configs.project import ProjectConfig
from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.table_epochs import EpochRange, sum_digests
from holdfast.orchestration.playbooks.restore.fork import Fork
from holdfast.orchestration.playbooks.restore.point import RestoreTarget
from holdfast.orchestration.playbooks.restore.restore import Restore
from holdfast.resources.control_store.records import LedgerEntry
from holdfast.resources.object_store.connection import S3Connection
from holdfast.resources.project import Project
from holdfast.streaming.sinks.delta.compaction import TableCompaction
from holdfast.streaming.sinks.delta.files import TableFolder, live_files, read_footer
from tests.builders.delta_tables import a_commit, words
from tests.builders.recorded_stream import a_restorable_stream, entries, output
from tests.builders.streams import CLICKS
from tests.fakes.projects import SimulatedProject, simulated_projects

AT_5 = RestoreTarget(epoch=5)


def nowhere() -> S3Connection:
    raise AssertionError("the tables are on a disk")


@pytest.fixture
def project(tmp_path: Path) -> Iterator[SimulatedProject]:
    with simulated_projects(tmp_path).open() as project:
        a_restorable_stream(project)
        yield project


def merge_all(project: Project) -> None:
    """Merge epochs 0 to 7, and delete the single files and the log from before that."""
    path = project.config.table_path(CLICKS)
    ledger = {entry.epoch: entry for entry in project.store.ledger.between(CLICKS, 0, 7)}
    compaction = TableCompaction(path, nowhere)
    compaction.merge(CLICKS, EpochRange(0, 7), ledger, now=1.0)
    table = DeltaTable(path)
    compaction.delete(compaction.find_expired(table, hours=1))
    table.create_checkpoint()
    for old in (Path(path) / "_delta_log").glob("*.json"):
        if int(old.stem) < table.version():
            old.unlink()


def require_cut_at_5(project: Project, name: str) -> None:
    """One file has epochs 0 to 5, with their digest in the ledger."""
    path = project.config.table_path(name)
    (file,) = live_files(DeltaTable(path))
    assert file.epochs == EpochRange(0, 5)
    digests = [entry.digest for entry in project.store.ledger.between(name, 0, 5)]
    assert read_footer(TableFolder.open(path, nowhere), file.path).digest == sum_digests(digests)
    assert output(project, name) == entries(project, name) == [0, 1, 2, 3, 4, 5]
    result = audit(project, name)
    assert result.passed, result.description


def test_a_restore_cuts_a_merged_file_and_keeps_the_digest_of_its_rows(project: Project) -> None:
    merge_all(project)
    list(Restore(project, CLICKS, "run", target=AT_5, why="").steps())
    require_cut_at_5(project, CLICKS)
    a_commit(project.config.table_path(CLICKS), 6, words(1, first=6), app=f"holdfast/{CLICKS}@1")
    entry = LedgerEntry(stream=CLICKS, epoch=6, replica="r2", token=2, rows=1, digest="d6")
    project.store.ledger.commit(entry, history=1)
    assert output(project) == [0, 1, 2, 3, 4, 5, 6]
    result = audit(project, CLICKS)
    assert result.passed, result.description


def test_a_fork_gets_a_cut_file_and_the_original_keeps_the_whole_one(
    project: SimulatedProject,
) -> None:
    merge_all(project)
    list(Fork(project, CLICKS, "run", target=AT_5, into="trial").steps())
    config = ProjectConfig.load(project.config.root)
    again = SimulatedProject(config, project.store, project.objects, object_store_serves=True)
    require_cut_at_5(again, "trial")
    assert output(again) == list(range(8))


def test_a_plan_refuses_a_table_that_another_program_has_rewritten_and_nothing_is_changed(
    project: Project,
) -> None:
    DeltaTable(project.config.table_path(CLICKS)).optimize.compact()
    for act in (
        Restore(project, CLICKS, "plan", target=AT_5).look_ahead,
        Restore(project, CLICKS, "run", target=AT_5, why="").begin,
        Fork(project, CLICKS, "plan", target=AT_5, into="trial").plan,
    ):
        with pytest.raises(PermanentError, match="another program has written them again"):
            act()
    assert entries(project) == output(project) == list(range(8))
    assert project.store.restores.newest(CLICKS) is None


def test_a_table_that_is_rewritten_after_the_restore_has_begun_is_not_taken_for_rolled_back(
    project: Project,
) -> None:
    steps = Restore(project, CLICKS, "run", target=AT_5, why="").steps()
    assert [next(steps).name for _ in range(2)] == ["BeginHistory", "MarkSnapshots"]
    DeltaTable(project.config.table_path(CLICKS)).optimize.compact()
    with pytest.raises(PermanentError, match="another program has written them again"):
        list(Restore(project, CLICKS, "again", target=AT_5, why="").steps())
    assert output(project) == list(range(8))
