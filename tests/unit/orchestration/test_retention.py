"""The hourly retention on a simulated project: epochs, records, folders, logs and runs of Dagster."""

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.scheduler.instigation import TickData, TickStatus
from dagster._core.storage.tags import SCHEDULE_NAME_TAG

from holdfast.ft_policies.snapshots import DatedSnapshot, RetentionVerdict
from holdfast.observation.growth import epoch_facts
from holdfast.orchestration import retention
from holdfast.orchestration.jobs.dagster_history import PARTITION_TAG, DagsterLimits, prune_dagster
from holdfast.orchestration.retention import (
    prune_epochs,
    prune_records,
    rotate_logs,
)
from holdfast.resources.control_store.records import EndedBy, ReplicaState, Slot
from holdfast.resources.process import HOST
from tests.builders.streams import CLICKS, a_wanted_stream, commit_epochs
from tests.fakes.projects import SimulatedProject, simulated_projects

LATER = 4e9


@pytest.fixture
def project(tmp_path: Path) -> Iterator[SimulatedProject]:
    with simulated_projects(tmp_path).open() as project:
        a_wanted_stream(project)
        yield project


def kept(epoch: int) -> list[RetentionVerdict]:
    return [RetentionVerdict(DatedSnapshot("s", epoch, 0.0), keep=True, reasons=("kept",))]


def test_epochs_within_the_restore_window_are_kept(project: SimulatedProject) -> None:
    commit_epochs(project, 5)
    assert prune_epochs(project, CLICKS, kept(3)) == 0
    assert epoch_facts(project, CLICKS, [3]).first_in_window == 0


def test_a_stream_without_a_snapshot_keeps_everything(project: SimulatedProject) -> None:
    commit_epochs(project, 5)
    facts = epoch_facts(project, CLICKS, [])
    assert (facts.oldest_snapshot, facts.last_entered) == (None, 4)
    assert prune_epochs(project, CLICKS, []) == 0


def test_the_folder_of_a_replica_that_ended_long_ago_goes_with_its_row(
    project: SimulatedProject, tmp_path: Path
) -> None:
    for replica in ("r1", "r2"):
        folder = tmp_path / "replicas" / replica
        folder.mkdir(parents=True)
        (folder / "replica.log").write_text("ready")
        project.store.replicas.register(
            id=replica, stream=CLICKS, slot=Slot.PRIMARY, desired={}, host=HOST, folder=str(folder)
        )  # fmt: skip
        project.store.replicas.end(replica, ReplicaState.STOPPED, "", by=EndedBy.REPLICA)
    assert prune_records(project, streams=[CLICKS])["replicas"] == 0  # both are young
    with project.store._database.write() as connection:
        connection.exec_driver_sql("UPDATE replicas SET ended_at = 1.0")
    assert prune_records(project, streams=[CLICKS])["replicas"] == 1
    assert [row.id for row in project.store.replicas.of(CLICKS, live=False)] == ["r2"]
    assert [path.name for path in (tmp_path / "replicas").iterdir()] == ["r2"]


def test_only_the_newest_replicas_keep_their_logs(
    project: SimulatedProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A secondary that cannot start is tried again and again, and each try leaves a folder."""
    monkeypatch.setattr(retention, "KEPT_FOLDERS", 2)
    for number in range(5):
        folder = tmp_path / "replicas" / f"r{number}"
        folder.mkdir(parents=True)
        project.store.replicas.register(
            id=folder.name, stream=CLICKS, slot=Slot.SECONDARY, desired={}, host=HOST, folder=str(folder)
        )  # fmt: skip
        if number != 1:
            reason = ReplicaState.FAILED, "no memory"
            project.store.replicas.end(folder.name, *reason, by=EndedBy.REPLICA)
        else:  # it lives
            with project.store._database.write() as connection:
                connection.exec_driver_sql("UPDATE replicas SET slot = 'primary' WHERE id = 'r1'")
    assert prune_records(project, streams=[CLICKS])["replica_folders"] == 2
    kept = {path.name for path in (tmp_path / "replicas").iterdir()}
    assert kept == {"r1", "r3", "r4"}
    assert len(project.store.replicas.of(CLICKS, live=False)) == 5
    assert prune_records(project, streams=[CLICKS])["replica_folders"] == 0


def test_a_log_that_has_grown_too_long_is_moved_away_under_its_writer(
    project: SimulatedProject,
) -> None:
    log = project.config.home / "logs" / "dagster.log"
    log.parent.mkdir(parents=True)
    limit = project.config.deployment.retention.log_size
    with log.open("ab") as writer:
        writer.write(b"x" * (limit + 1))
        writer.flush()
        assert rotate_logs(project, streams=[CLICKS]) == [str(log)]
        writer.write(b"next")
    assert log.read_bytes() == b"next"
    assert log.with_name("dagster.log.1").stat().st_size == limit + 1
    assert rotate_logs(project, streams=[CLICKS]) == []


def test_a_log_that_has_filled_the_disk_is_cut_without_a_copy(
    project: SimulatedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    full, unreadable = (project.config.home / "logs" / f"{name}.log" for name in ("a", "b"))
    full.parent.mkdir(parents=True)
    for log in (full, unreadable):
        log.write_bytes(b"x" * (project.config.deployment.retention.log_size + 1))

    def copyfile(log: Path, copy: Path) -> None:
        copy.write_text("a part")
        error = errno.ENOSPC if log == full else errno.EIO
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(shutil, "copyfile", copyfile)
    assert rotate_logs(project, streams=[CLICKS]) == [str(full)]
    assert full.read_bytes() == b""
    assert not full.with_name("a.log.1").exists()
    assert unreadable.read_bytes() != b"", "the others are cut all the same"


def limits(*, runs: float = 1.0, routine: float = 1.0, ticks: float = 1.0) -> DagsterLimits:
    return DagsterLimits(runs=runs, routine=routine, ticks=ticks)


def test_finished_runs_of_dagster_are_deleted_but_not_those_of_partitions() -> None:
    @dg.job
    def nothing() -> None:
        pass

    with dg.DagsterInstance.ephemeral() as instance:
        plain = [nothing.execute_in_process(instance=instance).run_id for _ in range(3)]
        tags = {PARTITION_TAG: "2026-01-01"}
        daily = nothing.execute_in_process(instance=instance, tags=tags).run_id
        waiting = instance.create_run_for_job(nothing).run_id
        assert prune_dagster(instance, limits(runs=1.0)) == 0
        assert prune_dagster(instance, limits(runs=LATER)) == len(plain)
        assert {run.run_id for run in instance.get_runs()} == {daily, waiting}


def test_what_dagster_leaves_of_old_runs_and_events_goes_but_the_newest_events(
    tmp_path: Path,
) -> None:
    @dg.op
    def says() -> None:
        pass

    @dg.job
    def speaks() -> None:
        says()

    def events(instance: dg.DagsterInstance) -> list[object]:
        records = instance.fetch_materializations(dg.AssetKey("one"), limit=100).records
        return [record.asset_materialization.metadata["n"].value for record in records]  # type: ignore[union-attr]

    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        run = speaks.execute_in_process(instance=instance).run_id
        assert list(tmp_path.rglob(f"*{run}*"))
        for number in range(3):
            instance.report_runless_asset_event(
                dg.AssetMaterialization("one", metadata={"n": number})
            )
            instance.report_runless_asset_event(
                dg.AssetCheckEvaluation(asset_key=dg.AssetKey("one"), check_name="c", passed=True)
            )
        prune_dagster(instance, limits(runs=1.0))
        assert len(events(instance)) == 3
        prune_dagster(instance, limits(runs=LATER))
        assert events(instance) == [2]
        assert list(tmp_path.rglob(f"*{run}*")) == []
        check = dg.AssetCheckKey(dg.AssetKey("one"), "c")
        history = instance.event_log_storage.get_asset_check_execution_history(check, limit=10)
        assert len(history) == 1


@dg.job
def upkeep() -> None:
    pass


@dg.job
def broken() -> None:
    dg.OpDefinition(lambda: 1 / 0, name="divide", ins={}, outs={})()


def test_runs_of_schedules_that_succeeded_go_first_but_the_newest_of_each_job() -> None:
    scheduled = {SCHEDULE_NAME_TAG: "hourly"}
    with dg.DagsterInstance.ephemeral() as instance:
        asked = upkeep.execute_in_process(instance=instance).run_id
        day = {**scheduled, PARTITION_TAG: "2026-01-01"}
        partition = upkeep.execute_in_process(instance=instance, tags=day).run_id
        failed = broken.execute_in_process(
            instance=instance, tags=scheduled, raise_on_error=False
        ).run_id
        routine = [
            upkeep.execute_in_process(instance=instance, tags=scheduled).run_id for _ in range(3)
        ]
        assert prune_dagster(instance, limits(routine=LATER)) == len(routine) - 1
        kept_runs = {run.run_id for run in instance.get_runs()}
        assert kept_runs == {asked, partition, failed, routine[-1]}


def test_a_day_of_a_report_stays_materialized_when_the_events_of_its_run_go(tmp_path: Path) -> None:
    @dg.asset(partitions_def=dg.StaticPartitionsDefinition(["monday", "tuesday"]))
    def report() -> None:
        pass

    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        run = dg.materialize([report], instance=instance, partition_key="monday").run_id
        assert list(tmp_path.rglob(f"{run}.db"))
        assert prune_dagster(instance, limits(runs=LATER)) == 0
        assert list(tmp_path.rglob(f"{run}.db")) == []
        assert instance.get_materialized_partitions(report.key) == {"monday"}
        assert [row.run_id for row in instance.get_runs()] == [run]


def test_skipped_ticks_go_early_and_their_space_with_them(tmp_path: Path) -> None:
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        for number in range(40):
            status = TickStatus.SUCCESS if number == 7 else TickStatus.SKIPPED
            tick = TickData(
                "origin", "sensor", InstigatorType.SENSOR, status, 1000.0 + number,
                selector_id="selector", run_ids=[], cursor="x" * 700_000,
            )  # fmt: skip
            instance.create_tick(tick)
        file = next(tmp_path.rglob("schedules.db"))
        full = file.stat().st_size
        prune_dagster(instance, limits(ticks=1030.0))
        times = sorted(tick.timestamp for tick in instance.get_ticks("origin", "selector"))
        assert times == [1007.0, *(1000.0 + number for number in range(30, 40))]
        assert file.stat().st_size < full / 2
