"""The compact playbook: what is merged when, and a run that dies at any step is finished by the next."""

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from holdfast.assets import outputs
from holdfast.assets.growth import judge_table
from holdfast.assets.outputs import audit
from holdfast.ft_policies.playbooks import compact as policy
from holdfast.ft_policies.playbooks.compact import (
    MergeFiles,
    TableKind,
)
from holdfast.ft_policies.table_epochs import EpochRange
from holdfast.observation.growth import measure_table
from holdfast.observation.tables import merged_rows
from holdfast.orchestration.playbooks import compact as playbook_module
from holdfast.orchestration.playbooks.compact import Compact, compact
from holdfast.orchestration.retention import sample_growth
from holdfast.resources.control_store.records import LedgerEntry
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.streaming.sinks.delta import compaction
from holdfast.streaming.sinks.delta.files import live_files
from tests.builders.delta_tables import a_commit, a_table, own_tables, words
from tests.builders.streams import CLICKS, a_wanted_stream, decide_epoch
from tests.fakes.projects import SimulatedProject, simulated_projects

DAY = 86400.0
STEPS = ["MergeFiles", "DeleteMerged", "WriteCheckpoint"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedProject]:
    monkeypatch.setattr(policy, "FEWEST_FILES", 4)
    monkeypatch.setattr(policy, "CHECKPOINT_COMMITS", 5)
    monkeypatch.setattr(compaction, "CHECKPOINT_SPACING", 3)
    with simulated_projects(tmp_path).open() as project:
        a_wanted_stream(project)
        a_table(project.config.table_path(CLICKS))
        own_tables(project)
        yield project


def commit(project: SimulatedProject, *epochs: int, age_seconds: float = 2 * DAY) -> None:
    """Epochs as a stream leaves them, so long ago; every fourth has no rows."""
    for epoch in epochs:
        decide_epoch(project, epoch)
        rows = 0 if epoch % 4 == 3 else 2
        if rows:
            a_commit(
                project.config.table_path(CLICKS),
                epoch,
                words(rows, first=10 * epoch),
                digest=f"{epoch:016x}",
            )
        entry = LedgerEntry(
            stream=CLICKS, epoch=epoch, replica="r1", token=1, rows=rows, digest=f"{epoch:016x}"
        )
        project.store.ledger.commit(entry, history=0)
    with sqlite3.connect(project.config.home / "control.db") as database:
        at = project.store.now() - age_seconds
        database.execute("UPDATE ledger SET committed_at = ? WHERE epoch >= ?", (at, epochs[0]))


def output(project: SimulatedProject) -> list[int]:
    return sorted(DeltaTable(project.config.table_path(CLICKS)).to_pandas()["count"])


def files(project: SimulatedProject) -> int:
    return len(live_files(DeltaTable(project.config.table_path(CLICKS))))


def test_old_epochs_are_merged_and_newer_ones_are_not(project: SimulatedProject) -> None:
    commit(project, *range(8))
    commit(project, *range(8, 16), age_seconds=60.0)
    before = output(project)
    assert compact(project, CLICKS)[0] == "MergeFiles"
    assert output(project) == before
    assert files(project) == 1 + 6
    assert Compact(project, CLICKS, "again").plan() == []
    result = audit(project, CLICKS)
    assert result.passed, result.description


def test_a_run_that_dies_before_or_after_any_step_is_finished_by_the_next(
    project: SimulatedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Compact, "_hours_readable", lambda _: 0)  # all merged files have expired
    first, died = 0, []
    for step in STEPS:
        for place in ("before", "after"):
            commit(project, *range(first, first + 8))
            first += 8
            expected = output(project)
            died += _run_and_die(project, step, place)
            assert output(project) == expected
            compact(project, CLICKS)
            assert output(project) == expected
            assert Compact(project, CLICKS, "again").plan() == []
            result = audit(project, CLICKS)
            assert result.passed, result.description
    assert set(died) == set(STEPS)


class DeadRunError(Exception):
    """The process of a run was killed."""


def _run_and_die(project: SimulatedProject, at: str, place: str) -> list[str]:
    playbook = Compact(project, CLICKS, "dies")
    act = playbook.act

    def die(step: policy.CompactStep) -> object:
        if step.name == at and place == "before":
            raise DeadRunError
        result = act(step)
        if step.name == at:
            raise DeadRunError
        return result

    playbook.act = die  # type: ignore[method-assign, assignment]
    try:
        list(playbook.steps())
    except DeadRunError:
        return [at]
    return []


def test_a_stream_that_is_being_restored_is_left_alone(project: SimulatedProject) -> None:
    commit(project, *range(8))
    project.store.restores.request(CLICKS, epoch=2, snapshot=None, why="", run="")
    assert Compact(project, CLICKS, "run").plan() == []


def test_epochs_whose_rows_the_ledger_does_not_have_stay_as_they_are(
    project: SimulatedProject,
) -> None:
    commit(project, *range(14))
    DeltaTable(project.config.table_path(CLICKS)).delete("count = 60")  # a row of epoch 6
    before = output(project)
    assert compact(project, CLICKS)[:2] == ["MergeFiles", "MergeFiles"]
    assert output(project) == before
    assert files(project) == 3


def test_an_audit_finds_a_merged_range_with_other_rows_and_an_epoch_in_it_twice(
    project: SimulatedProject,
) -> None:
    commit(project, *range(8))
    compact(project, CLICKS)
    path = project.config.table_path(CLICKS)
    a_commit(path, 2, words(2, first=20), digest="2", app="another")
    twice = audit(project, CLICKS)
    assert "epoch 2 is in the files of the table twice" in str(twice.metadata["problems"].value)
    with sqlite3.connect(project.config.home / "control.db") as database:
        database.execute("UPDATE ledger SET rows = 3 WHERE epoch = 1")
    differing = audit(project, CLICKS)
    assert "epochs 0 to 7 have 12 rows in the table, 13 in the ledger" in str(
        differing.metadata["problems"].value
    )


def forget_log(project: SimulatedProject) -> None:
    """Leave a checkpoint of the table and nothing before it."""
    table = DeltaTable(project.config.table_path(CLICKS))
    table.create_checkpoint()
    for old in (Path(project.config.table_path(CLICKS)) / "_delta_log").glob("*.json"):
        if int(old.stem) < table.version():
            old.unlink()


def problems(project: SimulatedProject) -> str:
    return str(audit(project, CLICKS).metadata["problems"].value)


def test_epochs_whose_commits_are_no_longer_in_the_log_are_proven_by_the_files(
    project: SimulatedProject,
) -> None:
    commit(project, *range(8))
    compact(project, CLICKS)
    commit(project, 8, 9, 10, age_seconds=60.0)
    forget_log(project)
    commit(project, 11, 12, age_seconds=60.0)
    result = audit(project, CLICKS)
    assert result.passed, result.description
    checked = result.metadata["table_epochs_checked"].value
    assert checked == "0 to 12, up to 9 by the files of the table"


@pytest.mark.parametrize(("damaged", "rows"), [(9, 0), (2, 3)])
def test_an_epoch_that_is_older_than_the_log_and_has_other_rows_is_found(
    project: SimulatedProject, damaged: int, rows: int
) -> None:
    commit(project, *range(8))
    compact(project, CLICKS)
    commit(project, 8, 9, 10, age_seconds=60.0)
    if damaged == 9:
        DeltaTable(project.config.table_path(CLICKS)).delete("count >= 90 and count < 100")
        expected = "epoch 9 (2 rows in the ledger) has 0 rows in the table"
    else:
        _enter_rows(project, {2: 3, 1: 1})  # the sum of the range is right
        expected = "epoch 2 (3 rows in the ledger) has 2 rows in the table"
    forget_log(project)
    assert expected in problems(project)


def _enter_rows(project: SimulatedProject, rows: dict[int, int]) -> None:
    with sqlite3.connect(project.config.home / "control.db") as database:
        database.executemany(
            "UPDATE ledger SET rows = ? WHERE epoch = ?", [(n, epoch) for epoch, n in rows.items()]
        )


def test_rows_that_another_program_has_written_again_are_not_missed(
    project: SimulatedProject,
) -> None:
    commit(project, *range(8), age_seconds=60.0)
    DeltaTable(project.config.table_path(CLICKS)).optimize.compact()
    forget_log(project)
    result = audit(project, CLICKS)
    assert result.passed, result.description


def test_a_merged_file_tells_only_those_epochs_apart_that_can_be_restored(
    project: SimulatedProject,
) -> None:
    commit(project, *range(8))
    compact(project, CLICKS)
    project.store.retention.prune_epochs(CLICKS, before=5)
    commit(project, *range(8, 16))
    compact(project, CLICKS)
    table = DeltaTable(project.config.table_path(CLICKS))
    rows = merged_rows(project, CLICKS, table, EpochRange(0, 15))
    assert set(rows) == {5, 6, 8, 9, 10, 12, 13, 14}
    result = audit(project, CLICKS)
    assert result.passed, result.description


def test_pruned_epochs_of_a_merged_range_still_count(project: SimulatedProject) -> None:
    commit(project, *range(8))
    compact(project, CLICKS)
    project.store.retention.prune_epochs(CLICKS, before=5)
    result = audit(project, CLICKS)
    assert result.passed, result.description


@pytest.fixture
def two_ranges(project: SimulatedProject, monkeypatch: pytest.MonkeyPatch) -> SimulatedProject:
    """A table with two merged ranges, and a few epochs after them."""
    monkeypatch.setattr(policy, "_reach_back", lambda _run, first, _last: first)
    for begin in (0, 8):
        commit(project, *range(begin, begin + 8))
        compact(project, CLICKS)
    commit(project, 16, 17, 18, age_seconds=60.0)
    return project


def test_a_merged_range_that_is_lost_is_found_though_its_epochs_are_pruned(
    two_ranges: SimulatedProject,
) -> None:
    two_ranges.store.retention.prune_epochs(CLICKS, before=12)
    result = audit(two_ranges, CLICKS)
    assert result.passed, result.description
    DeltaTable(two_ranges.config.table_path(CLICKS)).delete("count < 80")
    assert "epochs 0 to 15 have 12 rows in the table, 24 in the ledger" in problems(two_ranges)


def test_a_merged_range_that_is_lost_is_found_though_audits_read_only_newer_epochs(
    two_ranges: SimulatedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "AUDITED_EPOCHS", 2)
    result = audit(two_ranges, CLICKS)
    assert result.passed, result.description
    DeltaTable(two_ranges.config.table_path(CLICKS)).delete("count < 80")
    assert "epochs 0 to 7 have 0 rows in the table, 12 in the ledger" in problems(two_ranges)


def test_a_merged_range_has_the_digest_of_its_epochs(two_ranges: SimulatedProject) -> None:
    forget_log(two_ranges)
    result = audit(two_ranges, CLICKS)
    assert result.passed, result.description
    with sqlite3.connect(two_ranges.config.home / "control.db") as database:
        database.execute("UPDATE ledger SET digest = 'f00' WHERE epoch = 9")
    expected = "epochs 8 to 15: the digests in the table and in the ledger differ"
    assert expected in problems(two_ranges)
    two_ranges.store.retention.prune_epochs(CLICKS, before=12)
    result = audit(two_ranges, CLICKS)
    assert result.passed, result.description


def test_the_size_of_the_table_is_sampled_and_checked(project: SimulatedProject) -> None:
    commit(project, *range(8))
    sample_growth(project, CLICKS)
    samples = project.store.samples.latest(CLICKS)
    assert samples[SampleName.TABLE_FILES].value == 6
    assert samples[SampleName.TABLE_LOG_BYTES].value > 1000
    declared, growth = project.config.stream(CLICKS), measure_table(project, CLICKS)
    assert growth is not None
    assert judge_table(declared, growth).passed
    slow = judge_table(declared, replace(growth, files=10**6, mergeable=10**5, commit_seconds=9.0))
    assert not slow.passed
    assert "run `holdfast compact clicks`" in (slow.description or "")
    assert "a commit took 9 s" in (slow.description or "")


def test_a_table_with_too_many_files_is_compacted_only_if_that_helps(
    project: SimulatedProject,
) -> None:
    commit(project, *range(8))
    growth = measure_table(project, CLICKS)
    assert growth is not None
    assert growth.mergeable == 6
    compact(project, CLICKS)
    growth = measure_table(project, CLICKS)
    assert growth is not None
    assert growth.mergeable == 0
    declared = project.config.stream(CLICKS)
    judged = judge_table(declared, replace(growth, files=10**6)).description or ""
    assert "partition_by" in judged
    assert "holdfast compact" not in judged


def test_dead_letters_are_merged_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "FEWEST_FILES", 4)
    source = {
        "kind": "files",
        "path": "input",
        "format": "jsonl",
        "schema": "id bigint",
        "dead_letters": {},
    }
    with simulated_projects(tmp_path, source=source).open() as project:
        a_wanted_stream(project)
        a_table(project.config.table_path(CLICKS))
        commit(project, *range(12))
        path = project.config.dead_letters_path(CLICKS) or ""
        a_table(path)
        for epoch in (1, 4, 5, 9, 11):
            a_commit(path, epoch, words(1, first=epoch), app=f"letters{epoch}")
        own_tables(project)
        compact(project, CLICKS)
        table = DeltaTable(path)
        assert sorted(table.to_pandas()["count"]) == [1, 4, 5, 9, 11]
        assert [file.epochs for file in live_files(table)] == [EpochRange(0, 11)]


def test_a_plan_names_files_and_epochs(project: SimulatedProject) -> None:
    commit(project, *range(8))
    [step, *_] = Compact(project, CLICKS, "run").plan()
    assert step == MergeFiles(TableKind.OUTPUT, 0, 7, 6, step.size_bytes)  # type: ignore[union-attr]
    assert "merges 6 files of epochs 0 to 7" in step.describe()


def test_a_stream_with_little_output_is_compacted(
    project: SimulatedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(playbook_module, "MOST_FILES", 3)
    commit(project, *range(8))
    before = output(project)
    assert compact(project, CLICKS)[0] == "MergeFiles"
    assert output(project) == before
    assert files(project) < 4
