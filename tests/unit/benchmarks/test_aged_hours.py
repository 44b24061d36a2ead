"""A few hours of benchmarks/age: what is written and maintained is one stream, whose epochs are all there once."""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.scheduler.instigation import TickStatus
from dagster._utils.schedules import cron_string_iterator

from benchmarks.ageing.control_store import Author, ControlStoreAgeing
from benchmarks.ageing.dagster_storage import (
    DAY_SECONDS,
    TICKS_PER_HOUR,
    DagsterAgeing,
    build_schedule_ticks,
)
from benchmarks.ageing.home_files import HomeAgeing
from benchmarks.ageing.hours import age_stream
from benchmarks.ageing.live import BLOCK_BYTES, compare_sizes, measure_disk, measure_size
from benchmarks.ageing.workload import RATE
from holdfast.observation.reports import costs
from holdfast.observation.reports.files import report_parts, write_report
from holdfast.observation.tables import open_table, table_epochs
from holdfast.orchestration import schedules
from holdfast.orchestration.jobs import reports
from holdfast.orchestration.jobs.dagster_history import PARTITION_TAG
from holdfast.orchestration.services.dagster import prepare_home
from holdfast.resources.clock import SYSTEM_CLOCK
from holdfast.resources.project import open_project
from tests.builders.delta_tables import own_tables
from tests.builders.lived_stream import EPOCHS, live, write_project

HOURS, HOUR_SECONDS = 3, 350
"""Of hours as short as these compaction merges the first."""
DAY, DAY_AFTER = "2026-11-18", datetime(2026, 11, 20, tzinfo=UTC).timestamp()


@pytest.fixture(scope="module")
def lived_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Dagster home in which a report of costs was made."""
    folder = tmp_path_factory.mktemp("lived") / "dagster"
    prepare_home(folder)

    @dg.op
    def report() -> None:
        pass

    @dg.job(name=reports.REPORT_COSTS.name)
    def report_costs() -> None:
        report()

    with dg.DagsterInstance.from_config(str(folder)) as instance:
        report_costs.execute_in_process(instance=instance, tags={PARTITION_TAG: DAY})
        instance.get_ticks("none", "none")  # makes the file of ticks
    return folder


@pytest.fixture
def home(tmp_path: Path, lived_home: Path) -> Path:
    """A copy of it in a project."""
    return shutil.copytree(lived_home, tmp_path / ".holdfast" / "dagster")


@pytest.fixture
def instance(home: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.from_config(str(home)) as opened:
        yield opened


@pytest.mark.parametrize("kind", ["rate", "files"])
@pytest.mark.timeout(120)
def test_after_some_hours_each_epoch_is_in_ledger_and_table_once(
    kind: str, tmp_path: Path, home: Path
) -> None:
    stream = write_project(tmp_path, kind)
    with open_project(tmp_path) as project:
        live(project, stream, SYSTEM_CLOCK.now())
        own_tables(project, stream)
    began = SYSTEM_CLOCK.now()
    age_stream(
        tmp_path,
        stream,
        hours=HOURS,
        step=lambda _: None,
        log_rates={"replica.log": 10.0},
        hour_seconds=HOUR_SECONDS,
    )
    with open_project(tmp_path) as project:
        store, newest = project.store, EPOCHS + HOURS * HOUR_SECONDS - 1
        audit = store.ledger.audit(stream)
        assert (audit.holes, audit.uncommitted, audit.disagreements) == ([], [], [])
        last = store.ledger.last(stream)
        assert last is not None
        assert last.epoch == newest
        assert began - 1 <= last.committed_at <= SYSTEM_CLOCK.now()
        table = open_table(project, stream)
        assert table is not None
        epochs = table_epochs(table, stream)
        assert epochs.twice == ()
        assert all(epochs.holds(epoch) for epoch in range(newest + 1))
        assert set(epochs.counts.values()) == {1}
        (merged,) = epochs.merged
        assert (merged.first, merged.last >= HOUR_SECONDS) == (0, True), "the first hour is old"
        assert table.to_pyarrow_table().num_rows == (newest + 1) * RATE
        snapshot = store.snapshots.newest(stream)
        assert snapshot is not None
        assert snapshot.epoch == newest
        assert sum(measure_disk(project, stream).values()) > 0


def test_the_ticks_of_schedules_are_those_that_are_on() -> None:
    declared = [*vars(schedules).values(), *vars(reports).values()]
    begin = datetime(2026, 11, 19, tzinfo=UTC).timestamp()
    per_hour = {}
    for schedule in declared:
        is_schedule = isinstance(schedule, dg.ScheduleDefinition)
        if is_schedule and schedule.default_status is dg.DefaultScheduleStatus.RUNNING:
            assert isinstance(schedule.cron_schedule, str)
            ticks = 0
            for at in cron_string_iterator(begin, schedule.cron_schedule, "UTC"):
                if at.timestamp() >= begin + DAY_SECONDS:
                    break
                ticks += 1
            per_hour[schedule.name] = ticks / 24
    assert per_hour == pytest.approx(TICKS_PER_HOUR)


def count_ticks(instance: dg.DagsterInstance, ageing: DagsterAgeing) -> int:
    return sum(len(instance.get_ticks(tick.origin, tick.selector)) for tick in ageing.ticks)


def test_ticks_are_written_as_long_as_they_are_kept(
    tmp_path: Path, home: Path, instance: dg.DagsterInstance
) -> None:
    ageing = DagsterAgeing.of(home, tmp_path / "templates", instance)
    days = instance.get_tick_retention_settings(InstigatorType.SCHEDULE)[TickStatus.SUCCESS]
    ageing.write_ticks(DAY_AFTER, hours_left=24 * (days + 2))
    assert count_ticks(instance, ageing) == 0
    ageing.write_ticks(DAY_AFTER, hours_left=24 * days)
    assert count_ticks(instance, ageing) == 4 + 3 + 1 + 1 + 1 + 1
    newest = instance.get_ticks(ageing.ticks[0].origin, ageing.ticks[0].selector)[0]
    assert newest.status is TickStatus.SUCCESS
    assert DAY_AFTER <= newest.timestamp < DAY_AFTER + 3600
    ageing.purge_ticks(DAY_AFTER + (days + 1) * DAY_SECONDS)
    assert count_ticks(instance, ageing) == 0


def test_each_schedule_has_a_tick_of_its_own() -> None:
    ticks = list(build_schedule_ticks())
    assert len({tick.origin for tick in ticks}) == len(ticks) == len(TICKS_PER_HOUR)


def test_the_run_of_a_cost_report_has_the_partition_of_its_day(
    tmp_path: Path, home: Path, instance: dg.DagsterInstance
) -> None:
    ageing = DagsterAgeing.of(home, tmp_path / "templates", instance)
    ageing.write_costs(DAY_AFTER)
    runs = instance.get_runs(dg.RunsFilter(tags={PARTITION_TAG: "2026-11-19"}))
    assert [run.status for run in runs] == [dg.DagsterRunStatus.SUCCESS]
    assert len(instance.get_runs(dg.RunsFilter(tags={PARTITION_TAG: DAY}))) == 1
    assert instance.all_logs(runs[0].run_id)


def test_logs_grow_at_their_rate_and_an_older_replica_keeps_two_files(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    log, folder = tmp_path / "logs" / "dagster.log", tmp_path / "replica"
    folder.mkdir()
    for path in (log, folder / "replica.log"):
        path.write_text("a line\n")
    rates = {"dagster.log": 2.0, "replica.log": 1.0}
    ageing = HomeAgeing(tmp_path, rates, longest=100, template=None)
    ageing.write_logs(60)
    assert log.stat().st_size == 7 + 120
    ageing.write_replica_logs(folder, 143)
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    assert sizes == {"replica.log": 50, "replica.log.1": 100}


def test_a_day_has_its_own_report_of_costs(tmp_path: Path) -> None:
    write_report(tmp_path, costs.REPORT, [{"stream": "words"}], part=DAY)
    ageing = HomeAgeing(tmp_path, {}, longest=100, template=DAY)
    ageing.write_costs(DAY_AFTER)
    assert sorted(report_parts(tmp_path, costs.REPORT)) == [DAY, "2026-11-19"]


def test_disk_is_counted_in_blocks_with_folders(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "small").write_text("x")
    paths = [tmp_path, tmp_path / "a", tmp_path / "a" / "small"]
    blocks = [path.stat().st_blocks * BLOCK_BYTES for path in paths]
    assert measure_size(tmp_path) == sum(blocks)
    assert measure_size(tmp_path, {str(paths[2])}) == sum(blocks[:2])
    assert measure_size(tmp_path / "none") == 0


def test_a_log_that_was_cut_has_not_shrunk() -> None:
    assert compare_sizes({"a": 100, "b": 10}, {"a": 40, "b": 70, "c": 30}, 30.0) == {
        "a": 0.0,
        "b": 2.0,
        "c": 1.0,
    }


def test_the_lost_replica_of_a_day_has_its_folder(tmp_path: Path) -> None:
    stream = write_project(tmp_path, "rate")
    with open_project(tmp_path) as opened:
        project = live(opened, stream, DAY_AFTER)
        rows = ControlStoreAgeing.of(project, stream, input_folder=None)
        author = Author(replica="age_rate-00000001", token=2)
        folder = rows.write_recovery(0, DAY_AFTER + 60, author)
    assert folder.name == author.replica
    assert (folder / "replica.log").exists()
