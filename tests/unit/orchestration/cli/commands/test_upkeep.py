"""`holdfast compact`, and the job that compacts all streams."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from holdfast.ft_policies.playbooks import compact as policy
from holdfast.ft_policies.playbooks.compact import SETTLED_SECONDS
from holdfast.orchestration.definitions import build_definitions
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.schema import ledger
from tests.builders.delta_tables import a_commit, a_table, own_tables, words
from tests.builders.streams import CLICKS, a_wanted_stream, commit_epochs
from tests.cli import holdfast_json, run_holdfast
from tests.fakes.projects import SimulatedProjects, simulated_projects


@pytest.fixture
def projects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimulatedProjects:
    monkeypatch.setattr(policy, "FEWEST_FILES", 4)
    projects = simulated_projects(tmp_path)
    with projects.open() as project:
        a_wanted_stream(project)
        commit_epochs(project, 6)
        settled = sa.update(ledger).values(committed_at=ledger.c.committed_at - 2 * SETTLED_SECONDS)
        project.store._database.execute(settled)
        rows = {entry.epoch: entry.rows for entry in project.store.ledger.between(CLICKS, 0, 9)}
        a_table(project.config.table_path(CLICKS))
        own_tables(project)
        for epoch, count in rows.items():
            a_commit(project.config.table_path(CLICKS), epoch, words(count))
    return projects


def test_a_plan_changes_nothing_and_a_run_merges(projects: SimulatedProjects) -> None:
    root = projects.root
    [step] = holdfast_json(root, "compact", CLICKS, "--dry-run")["steps"]
    assert step["step"] == "MergeFiles"
    assert "merges 6 files of epochs 0 to 5 of the table output" in step["does"]
    done = holdfast_json(root, "compact", CLICKS)
    assert [done["step"] for done in done["steps"]] == ["MergeFiles"]
    assert done["steps"][0]["result"]["rows"] == 60
    assert "is compact" in run_holdfast(root, "compact", CLICKS).output


def test_the_scheduled_job_compacts_and_samples_all_streams(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        definitions = build_definitions(project.config, projects)
        job = definitions.resolve_job_def("compact_tables")
        assert job.execute_in_process().success
        samples = project.store.samples.latest(CLICKS)
    assert samples[SampleName.TABLE_FILES].value == 1
    assert samples[SampleName.REPLAY_FLOOR].value == 0


def test_the_size_of_a_table_is_sampled_also_if_its_compaction_fails(
    projects: SimulatedProjects,
) -> None:
    with projects.open() as project:
        table = Path(project.config.table_path(CLICKS))
        next(table.glob("data/000000000003-*/*.parquet")).write_bytes(b"a damaged file")
        definitions = build_definitions(project.config, projects)
        job = definitions.resolve_job_def("compact_tables")
        assert not job.execute_in_process(raise_on_error=False).success
        assert project.store.samples.latest(CLICKS)[SampleName.TABLE_FILES].value == 6
