"""Asset checks pass and fail as they should."""

from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from holdfast.assets.outputs import audit
from holdfast.assets.project_resource import dagster_errors
from holdfast.assets.snapshots import compute_expected_seconds, judge_age, verify_newest
from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.observation.status import observe_stream
from holdfast.observation.tables import newest_rows, open_table
from holdfast.orchestration.definitions import build_definitions
from holdfast.resources.control_store.records import LedgerEntry, SnapshotState
from holdfast.resources.control_store.schema import ledger
from tests.builders.control_rows import a_snapshot, lose
from tests.builders.delta_tables import a_commit, a_table, words
from tests.builders.projects import a_declaration
from tests.builders.streams import (
    CLICKS,
    a_dead_primary,
    a_primary,
    a_wanted_stream,
    commit_epochs,
    decide_epoch,
)
from tests.builders.vaults import a_shipped_snapshot
from tests.fakes.projects import SimulatedProject, SimulatedProjects, simulated_projects


@pytest.fixture
def projects(tmp_path: Path) -> SimulatedProjects:
    return simulated_projects(tmp_path)


def ran(projects: SimulatedProjects, job: str = "audit") -> dict[str, dg.AssetCheckEvaluation]:
    """Run all checks as Dagster does."""
    with projects.open() as project:
        definitions = build_definitions(project.config, projects)
    result = definitions.resolve_job_def(job).execute_in_process(raise_on_error=False)
    return {
        evaluation.check_name: evaluation for evaluation in result.get_asset_check_evaluations()
    }


def test_a_stream_that_is_stopped_and_empty_passes_all_checks(projects: SimulatedProjects) -> None:
    evaluations = ran(projects)
    assert sorted(evaluations) == [
        "doctor",
        "healthy",
        "ledger_complete",
        "proven",
        "recent",
        "restorable",
        "table_bounded",
        "tier_is_covered",
    ]
    assert all(evaluation.passed for evaluation in evaluations.values())


def test_a_dead_driver_is_not_healthy(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        a_dead_primary(project)
    healthy = ran(projects)["healthy"]
    assert not healthy.passed
    assert healthy.metadata["health"].value == "dead"


def test_a_tier_that_is_not_covered_is_a_warning_with_the_reason(tmp_path: Path) -> None:
    projects = simulated_projects(tmp_path, tier="deployed")
    with projects.open() as project:
        a_wanted_stream(project)
        a_primary(project, "r1")
    check = ran(projects)["tier_is_covered"]
    assert not check.passed
    assert check.severity is dg.AssetCheckSeverity.WARN
    assert check.description == "only passive_replication is covered: there is no secondary"
    assert check.metadata["covered_tier"].value == "passive_replication"


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        ({"checkpoint": {"every": "10s"}}, 10.0),
        ({"checkpoint": {"epochs": 4}, "epoch": {"seconds": 1, "silence": 5}}, 20.0),
        ({"checkpoint": {"bytes": "1MiB"}, "objective": {"recovery_time": "40s"}}, 40.0),
    ],
)
def test_how_old_a_snapshot_may_get(changes: dict[str, object], seconds: float) -> None:
    assert compute_expected_seconds(a_declaration(**changes)) == seconds


def test_a_running_stream_without_recent_snapshots_is_warned_of(
    projects: SimulatedProjects,
) -> None:
    with projects.open() as project:
        a_wanted_stream(project)
        a_primary(project, "r1")
        status = observe_stream(project, CLICKS)
    declared = a_declaration(checkpoint={"every": "10s"})
    old = a_snapshot("s1", 0, stream=CLICKS, created_at=1.0)
    assert judge_age(declared, status, None).passed
    assert judge_age(declared, status, old).passed, "the time starts again with a new primary"
    late = judge_age(declared, replace(status, at=status.at + 31.0), old)
    assert not late.passed
    assert late.severity is dg.AssetCheckSeverity.WARN


def test_a_snapshot_that_verifies_is_noted_as_such(
    projects: SimulatedProjects, tmp_path: Path
) -> None:
    with projects.open() as project:
        a_shipped_snapshot(project, tmp_path / "checkpoint")
        assert verify_newest(project, CLICKS).passed
        newest = project.store.snapshots.newest(CLICKS)
    assert newest is not None
    assert newest.verified_at is not None


def test_a_damaged_snapshot_is_found_and_marked(
    projects: SimulatedProjects, tmp_path: Path
) -> None:
    with projects.open() as project:
        snapshot = a_shipped_snapshot(project, tmp_path / "checkpoint")
        [pack] = [key for key in projects.objects.objects if "/packs/" in key]
        projects.objects.damage(pack)
        result = verify_newest(project, CLICKS)
        [row] = project.store.snapshots.of(CLICKS, available_only=False)
    assert not result.passed
    assert result.severity is dg.AssetCheckSeverity.ERROR
    assert (row.id, row.state) == (snapshot, SnapshotState.DAMAGED)


def test_an_object_store_that_lost_everything_is_found(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        project.store.snapshots.record(a_snapshot("s1", 0, stream=CLICKS))
        assert not verify_newest(project, CLICKS).passed


def test_an_object_store_that_is_away_is_no_damage(
    projects: SimulatedProjects, tmp_path: Path
) -> None:
    with projects.open() as project:
        a_shipped_snapshot(project, tmp_path / "checkpoint")
        projects.objects.fail_next(TransientError("away", hint="wait"))
        with pytest.raises(dg.RetryRequested), dagster_errors():
            verify_newest(project, CLICKS)
        assert project.store.snapshots.newest(CLICKS) is not None


def table_of(project: SimulatedProject) -> str:
    path = project.config.table_path(CLICKS)
    a_table(path)
    return path


def problems(result: dg.AssetCheckResult) -> object:
    return result.metadata["problems"].value


def test_ledger_and_table_that_agree_pass(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        commit_epochs(project, 2)
        path = table_of(project)
        a_commit(path, 0, words(10))
        a_commit(path, 1, words(10))
        a_commit(path, 2, words(10))  # not in the ledger yet: its replica is about to enter it
        result = audit(project, CLICKS)
    assert (result.passed, problems(result)) == (True, [])
    assert result.metadata["table_epochs_checked"].value == "0 to 1"


def test_an_empty_epoch_needs_no_commit(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        commit_epochs(project, 2, rows=0)
        table_of(project)
        assert audit(project, CLICKS).passed


def test_an_epoch_that_the_table_lacks_is_found(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        commit_epochs(project, 2)
        a_commit(table_of(project), 0, words(10))
        assert problems(audit(project, CLICKS)) == [
            "epoch 1 (10 rows in the ledger) has 0 commits in the table"
        ]


def test_an_epoch_that_is_there_twice_is_found(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        commit_epochs(project, 1)
        path = table_of(project)
        a_commit(path, 0, words(10))
        a_commit(path, 0, words(10), app="another")
        assert problems(audit(project, CLICKS)) == [
            "epoch 0 (10 rows in the ledger) has 2 commits in the table",
            "epoch 0 is in the files of the table twice",
        ]


def test_another_digest_in_the_table_is_found(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        commit_epochs(project, 1)
        a_commit(table_of(project), 0, words(10), digest="other")
        assert problems(audit(project, CLICKS)) == [
            "epoch 0: the digests in the table and in the ledger differ"
        ]


def test_a_missing_table_is_found(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        commit_epochs(project, 1)
        assert problems(audit(project, CLICKS)) == ["the output table does not exist"]


def test_holes_and_disagreements_are_found(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        for epoch in range(3):
            decide_epoch(project, epoch)
        for epoch, replica, digest in [*((n, "r1", "a") for n in range(3)), (0, "r2", "b")]:
            project.store.ledger.commit(
                LedgerEntry(
                    stream=CLICKS, epoch=epoch, replica=replica, token=1, rows=0, digest=digest
                )
            )
        lose(project.store, ledger, 1, stream=CLICKS)
        result = audit(project, CLICKS)
    assert problems(result) == [
        "epoch 1 is missing from the ledger",
        "epoch 0: replicas computed different rows",
    ]


def test_the_newest_files_are_read_until_there_are_enough_rows(projects: SimulatedProjects) -> None:
    with projects.open() as project:
        path = table_of(project)
        for epoch in range(4):
            a_commit(path, epoch, words(10, first=10 * epoch))
        table = open_table(project, CLICKS)
    assert table is not None
    newest = newest_rows(table, at_least=15)
    assert (newest.files, newest.files_in_all) == (2, 4)
    assert sorted(newest.frame["count"]) == list(range(20, 40))
    assert list(newest_rows(table, at_least=0).frame.columns) == ["word", "count"]


def test_errors_become_a_retry_or_a_failure_with_the_hint() -> None:
    with pytest.raises(dg.RetryRequested), dagster_errors():
        raise TransientError("away", hint="wait")
    with pytest.raises(dg.Failure) as failure, dagster_errors():
        raise PermanentError("wrong", hint="mend it")
    assert failure.value.metadata["hint"].value == "mend it"
    assert failure.value.allow_retries is False
