"""A month of a stream, hour by hour: what it leaves is written in bulk, then the product's own maintenance runs.

Not every hour is written in full: what retention has deleted of an hour by the end of the month is left out, with some
hours of it left for retention to delete. See `Detail` for what is written of which hour.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from benchmarks.ageing.control_store import Author, ControlStoreAgeing, Detail, move_rows
from benchmarks.ageing.dagster_storage import DagsterAgeing
from benchmarks.ageing.home_files import HomeAgeing
from benchmarks.ageing.output_table import TableAgeing, move_table
from benchmarks.ageing.snapshots import SnapshotAgeing
from benchmarks.ageing.workload import INPUT
from benchmarks.ageing.world import SimulatedClock, SimulatedProject, SimulatedResource, simulate
from holdfast.orchestration.inputs import delete_unneeded, read_inputs
from holdfast.orchestration.jobs.maintenance import CompactConfig, PruneConfig, compact, prune
from holdfast.resources.project import open_project

HOURS_PER_DAY, HOUR_SECONDS, DAY_SECONDS = 24, 3600, 86400
ALL_HOURS = 8
"""As long as older versions of the table can be read, the files of single epochs stay; in six hours more they are deleted."""
INPUT_HOURS = 30
"""The restore window, for which the input is kept, and six hours in which what is older is deleted."""
RECORDS_HOURS = 9 * HOURS_PER_DAY
"""Samples, the catalogue's rows and Dagster's runs are kept for a week; two days are deleted."""
MAINTAINED_HOURS = 6
"""Of the hours before, the schedules run once in so many: all that they do is still to be done then."""
Step = Callable[[str], None]


@dataclass
class StreamAgeing:
    """All that is written of one stream, and its maintenance."""

    project: SimulatedProject
    stream: str
    clock: SimulatedClock
    rows: ControlStoreAgeing
    table: TableAgeing
    snapshots: SnapshotAgeing
    dagster: DagsterAgeing
    home: HomeAgeing
    hours: int
    """How many hours the stream ages."""
    hour_seconds: int
    """A test has shorter hours."""

    def live_hour(self, hour: int, author: Author, detail: Detail) -> None:
        """Write an hour; on the last of a day the primary is lost and recovered."""
        begin_at, first = self.clock.at, self.rows.epoch.epoch + 1 + hour * self.hour_seconds
        is_last = hour % HOURS_PER_DAY == HOURS_PER_DAY - 1
        span = (first, self.hour_seconds, begin_at, author)
        self.dagster.write_ticks(begin_at, hours_left=self.hours - 1 - hour)
        if begin_at % DAY_SECONDS < HOUR_SECONDS:
            self.dagster.write_costs(begin_at)
            self.home.write_costs(begin_at)
        self.home.write_logs(self.hour_seconds)
        self.rows.write_hour(*span, detail)
        if detail is Detail.ALL:
            self.table.write_hour(*span, self.rows.input_digests(*span))
        else:
            self.table.write_merged_hour(*span, self.rows.entry.digest)
        self.snapshots.write_hour(*span, detail)
        if detail >= Detail.RECORDS:
            self.dagster.write_hour(begin_at, recovery=is_last)
        self.clock.at = begin_at + self.hour_seconds
        if is_last:
            folder = self.rows.write_recovery(hour // HOURS_PER_DAY, self.clock.at, author)
            self.home.write_replica_logs(folder, HOURS_PER_DAY * self.hour_seconds)

    def maintain(self, hour: int) -> None:
        """Run what the schedules of the product run, and once a day what `holdfast inputs --prune` does."""
        before, resource = self.table.version, SimulatedResource(self.project)
        context = dg.build_op_context(instance=self.dagster.instance)
        compact(context, config=CompactConfig(), projects=resource)
        prune(context, config=PruneConfig(), projects=resource)
        if self.rows.input_folder is not None and hour % HOURS_PER_DAY == HOURS_PER_DAY - 1:
            delete_unneeded(self.project, read_inputs(self.project, self.stream))
        self.dagster.purge_ticks(self.clock.at)
        self.table.date_commits(before, self.clock.at)


def choose_detail(hours_left: int) -> Detail:
    """What is written of the hour that ends so many hours before the month does."""
    if hours_left < ALL_HOURS:
        return Detail.ALL
    if hours_left < INPUT_HOURS:
        return Detail.INPUT
    return Detail.RECORDS if hours_left < RECORDS_HOURS else Detail.MERGED


def age_stream(
    root: Path,
    stream: str,
    *,
    hours: int,
    step: Step,
    log_rates: Mapping[str, float],
    hour_seconds: int = HOUR_SECONDS,
) -> None:
    """Let a stopped stream be as old as if it had run on for hours; it ends now.

    `log_rates` are the bytes that it has written in a second to each log, by name.
    """
    with _prepare(root, stream, hours, hour_seconds, log_rates) as ageing:
        author = _author(ageing, 0)
        for hour in range(hours):
            step(f"{stream}: hour {hour + 1} of {hours}")
            author = _author(ageing, hour // HOURS_PER_DAY)
            detail = choose_detail(hours - 1 - hour)
            ageing.live_hour(hour, author, detail)
            if hour == hours - 1:
                _ship_last(ageing, hours, author)
            if detail >= Detail.INPUT or hour % MAINTAINED_HOURS == MAINTAINED_HOURS - 1:
                ageing.maintain(hour)
        ageing.rows.raise_token(author.token)


def _author(ageing: StreamAgeing, day: int) -> Author:
    lost = ageing.rows.recovery.lost.id
    return Author(replica=f"{lost[:-4]}{day:04d}", token=ageing.rows.epoch.token + 1 + day)


def _ship_last(ageing: StreamAgeing, hours: int, author: Author) -> None:
    epoch = ageing.rows.epoch.epoch + hours * ageing.hour_seconds
    ageing.snapshots.ship_last(epoch, author)


@contextmanager
def _prepare(
    root: Path, stream: str, hours: int, hour_seconds: int, log_rates: Mapping[str, float]
) -> Iterator[StreamAgeing]:
    """Everything that there is of the stream, moved back by as many hours."""
    with (
        open_project(root) as project,
        dg.DagsterInstance.from_config(str(project.config.home / "dagster")) as instance,
    ):
        is_files = project.config.stream(stream).source.kind == "files"
        table = Path(project.config.table_path(stream))
        last = project.store.ledger.last(stream)
        assert last is not None
        begin_at = project.store.now() - hours * hour_seconds
        seconds = begin_at - last.committed_at
        clock = SimulatedClock(begin_at)
        home, templates = project.config.home / "dagster", root / "dagster_templates"
        dagster = DagsterAgeing.of(home, templates, instance)
        move_rows(project, seconds)
        move_table(table, seconds)
        dagster.move(seconds)
        simulated = simulate(project, clock)
        yield StreamAgeing(
            project=simulated,
            stream=stream,
            clock=clock,
            rows=ControlStoreAgeing.of(
                simulated, stream, input_folder=root / INPUT if is_files else None
            ),
            table=TableAgeing.of(table),
            snapshots=SnapshotAgeing.of(simulated, stream, project.config.home / "ageing"),
            dagster=dagster,
            home=HomeAgeing.of(project, log_rates),
            hours=hours,
            hour_seconds=hour_seconds,
        )
        shutil.rmtree(templates)
