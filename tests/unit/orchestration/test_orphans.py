"""Retention deletes what replicas staged and never committed, and nothing else below a table."""

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema, write_deltalake

from holdfast.ft_policies.errors import TransientError
from holdfast.orchestration.playbooks.compact import Compact
from holdfast.orchestration.retention import drop_orphans, prune_orphans
from holdfast.resources.object_store.connection import S3Connection
from holdfast.streaming.sinks.delta.table import DEAD_LETTERS, make_table
from tests.builders.delta_tables import a_commit, a_table, own_tables, words
from tests.builders.projects import a_project, stream_yaml
from tests.builders.streams import CLICKS, a_wanted_stream, commit_epochs
from tests.fakes.projects import SimulatedProject, SimulatedProjects, simulated_projects

STAGED = "data/000000000009-clicks-0123abcd-89abcdef"
FILES = {"kind": "files", "path": "in", "format": "jsonl", "schema": "id bigint"}


@pytest.fixture
def projects(tmp_path: Path) -> SimulatedProjects:
    return simulated_projects(tmp_path, source={**FILES, "dead_letters": {}})


def output_of(project: SimulatedProject) -> Path:
    path = project.config.table_path(CLICKS)
    a_table(path)
    a_commit(path, 0, words(1))
    return Path(path)


def an_old_file(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("rows")
    make_old(path)
    return path


def make_old(root: Path) -> None:
    for path in (root, *root.rglob("*")):
        os.utime(path, (1.0, 1.0))


def test_files_that_were_staged_long_ago_and_never_committed_go(
    projects: SimulatedProjects,
) -> None:
    with projects.open() as project:
        table = output_of(project)
        an_old_file(table / STAGED / "day=1" / "part-0.parquet")
        recent = table / "data/000000000010-clicks-0123abcd-89abcdef" / "part-0.parquet"
        recent.parent.mkdir()
        recent.touch()
        assert drop_orphans(project, str(table), dry_run=True) == [f"{STAGED}/day=1/part-0.parquet"]
        assert (table / STAGED).exists()
        assert drop_orphans(project, str(table)) == [f"{STAGED}/day=1/part-0.parquet"]
        assert drop_orphans(project, str(table)) == []
    assert not (table / STAGED).exists()
    assert recent.exists()
    assert DeltaTable(str(table)).to_pyarrow_table().num_rows == 1


def test_a_folder_with_one_recent_file_stays(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        table = output_of(project)
        an_old_file(table / STAGED / "part-0.parquet")
        (table / STAGED / "part-1.parquet").touch()
        assert drop_orphans(project, str(table)) == []
    assert (table / STAGED / "part-0.parquet").exists()


def test_an_empty_staging_folder_goes_once_it_is_old(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        table = output_of(project)
        (table / STAGED).mkdir()
        drop_orphans(project, str(table))
        assert (table / STAGED).exists()
        make_old(table / STAGED)
        drop_orphans(project, str(table))
    assert not (table / STAGED).exists()


def test_whatever_else_is_below_the_table_stays_however_old_it_is(
    projects: SimulatedProjects,
) -> None:
    with projects.open() as project:
        table = output_of(project)
        neighbour, aside = table / "tables" / "b", table / "bad"
        a_table(str(neighbour))
        a_commit(str(neighbour), 0, words(2))
        a_letter = {"epoch": 0, "file": "f", "position": 0, "reason": "r", "record": "x"}
        write_deltalake(str(aside), pa.Table.from_pylist([a_letter], schema=DEAD_LETTERS))
        others = [
            an_old_file(table / name)
            for name in (
                "in/0001.jsonl",
                "app.py",
                "configs/streams/clicks.yaml",
                "part-00000-0c4ef3f0-1de4-4d3f-9f7f-0a1b2c3d4e5f-c000.snappy.parquet",
                "data/notes.txt",
                "data/000000000009-notes/a.parquet",
                f"tables/b/{STAGED}/part-0.parquet",
                "clicks/packs/000000000004-1-r1.0123456789ab.pack",
                "clicks/manifests/000000000004-1-r1.json.gz",
            )
        ]
        make_old(table)
        own_tables(project)
        assert prune_orphans(project, CLICKS, dry_run=False) == []
    assert all(file.exists() for file in others)
    assert DeltaTable(str(neighbour)).to_pyarrow_table().num_rows == 2
    assert DeltaTable(str(aside)).to_pyarrow_table().num_rows == 1


@pytest.mark.parametrize("is_current", ["yes", "no"])
def test_a_folder_that_any_readable_version_names_stays(
    projects: SimulatedProjects, is_current: str
) -> None:
    with projects.open() as project:
        table = output_of(project)
        a_commit(str(table), 9, words(3), app="clicks-0123abcd-89abcdef")
        if is_current == "no":
            DeltaTable(str(table)).delete()
        make_old(table / STAGED)
        assert drop_orphans(project, str(table)) == []
    assert list((table / STAGED).iterdir())


def test_a_log_that_cannot_be_read_protects_everything(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        table = output_of(project)
        orphan = an_old_file(table / STAGED / "part-0.parquet")
        opened = DeltaTable(str(table))
        opened.create_checkpoint()
        (table / "_delta_log" / f"{0:020d}.json").write_text("{")
        with pytest.raises(TransientError, match="cannot be read"):
            drop_orphans(project, str(table))
    assert orphan.exists()


def test_orphans_of_the_dead_letters_go_too(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        aside = project.config.dead_letters_path(CLICKS)
        assert aside is not None
        a_letter = {"epoch": 0, "file": "f", "position": 0, "reason": "r", "record": "x"}
        write_deltalake(aside, pa.Table.from_pylist([a_letter], schema=DEAD_LETTERS))
        an_old_file(Path(aside) / STAGED / "part-0.parquet")
        make_old(Path(aside))
        own_tables(project)
        assert prune_orphans(project, CLICKS, dry_run=False) == [f"{STAGED}/part-0.parquet"]
        assert DeltaTable(aside).to_pyarrow_table().num_rows == 1


def a_table_with_an_old_log(project: SimulatedProject, *, keep_seconds: float) -> Path:
    """The commits before its checkpoint are three hours old."""
    path = project.config.table_path(CLICKS)
    schema = Schema.from_arrow(words(1).schema)
    make_table(path, no_s3, schema=schema, partition_by=(), keep_seconds=keep_seconds)
    for epoch in range(3):
        a_commit(path, epoch, words(1))
    DeltaTable(path).create_checkpoint()
    log = Path(path) / "_delta_log"
    long_ago = log.stat().st_mtime - 3 * 3600
    for commit in log.glob("*.json"):
        os.utime(commit, (long_ago, long_ago))
    return log


def no_s3() -> S3Connection:
    raise AssertionError


def test_a_log_is_kept_while_the_ledger_lacks_the_newest_epoch_of_the_table(
    projects: SimulatedProjects,
) -> None:
    """The next replica reads the commit of that epoch, and enters it."""
    with projects.open() as project:
        commit_epochs(project, 2)
        log = a_table_with_an_old_log(project, keep_seconds=60.0)
        before = set(log.iterdir())
        own_tables(project)
        prune_orphans(project, CLICKS, dry_run=False)
        assert set(log.iterdir()) == before
        commit_epochs(project, 3)
        prune_orphans(project, CLICKS, dry_run=False)
        assert not before <= set(log.iterdir())


def test_upkeep_touches_no_table_that_the_stream_has_not_opened(
    projects: SimulatedProjects,
) -> None:
    """A stream that was never started may name the table of another program."""
    with projects.open() as project:
        a_wanted_stream(project)
        log = a_table_with_an_old_log(project, keep_seconds=60.0)
        table = log.parent
        orphan = an_old_file(table / STAGED / "part-0.parquet")
        before = set(log.iterdir())
        assert prune_orphans(project, CLICKS, dry_run=False) == []
        assert Compact(project, CLICKS, "run").observe().tables == ()
        assert (set(log.iterdir()), orphan.exists()) == (before, True)
        own_tables(project)
        moved = table.with_name("moved")
        table.rename(moved)  # and another table in its place
        output_of(project)
        assert Compact(project, CLICKS, "run").observe().tables == ()
        shutil.rmtree(table)
        moved.rename(table)
        assert prune_orphans(project, CLICKS, dry_run=False) == [f"{STAGED}/part-0.parquet"]
        assert Compact(project, CLICKS, "run").observe().tables != ()


@pytest.mark.parametrize("kept_for", ["1d", "1h"])
def test_a_changed_time_for_older_versions_reaches_a_table_that_is_there(
    tmp_path: Path, kept_for: str
) -> None:
    deployment = f"retention: {{table_versions: {kept_for}}}"
    root = a_project(tmp_path, clicks=stream_yaml(), holdfast=deployment)
    with SimulatedProjects(root).open() as project:
        log = a_table_with_an_old_log(project, keep_seconds=600.0)
        commits = len(list(log.glob("*.json")))
        drop_orphans(project, project.config.table_path(CLICKS))
        drop_orphans(project, project.config.table_path(CLICKS))
        properties = DeltaTable(project.config.table_path(CLICKS)).metadata().configuration
        kept = len(list(log.glob("*.json")))
    seconds = {"1d": 86400, "1h": 3600}[kept_for]
    assert properties["delta.logRetentionDuration"] == f"interval {seconds} seconds"
    assert properties["delta.deletedFileRetentionDuration"] == f"interval {seconds + 7200} seconds"
    assert (kept == commits + 1) is (kept_for == "1d")  # one commit changes it
