"""What a stream leaves in the control store: its epochs and samples by the hour, a recovery by the day.

Rows are copies of those that the live stream wrote before, with the epoch, the time and the replica of their own; they go
into the product's tables in bulk.
"""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from enum import IntEnum
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from benchmarks.ageing.workload import RATE, input_name, input_rows
from holdfast.resources.clock import SYSTEM_CLOCK
from holdfast.resources.control_store.epoch_records import digest_input
from holdfast.resources.control_store.records import (
    Epoch,
    Incident,
    LedgerEntry,
    ReplicaRow,
    Sample,
)
from holdfast.resources.control_store.schema import (
    epoch_files,
    epochs,
    incidents,
    journal,
    leases,
    ledger,
    ledger_copies,
    metadata,
    replicas,
    sample_series,
    sample_values,
)
from holdfast.resources.control_store.tables.samples import SAMPLE_FIELDS
from holdfast.resources.project import Project
from holdfast.streaming.sources.files import MARGIN_NS, TAKEN_UNTIL

COMMIT_AFTER_SECONDS = 0.5
PROGRESS_SECONDS = 5.0
SINCE_BOOT = "pid_started_at"
Row = dict[str, Any]


class Detail(IntEnum):
    """What is written of an hour: what retention has deleted of it by the end of the month may be left out.

    Written of each hour, apart from this: logs, Dagster's ticks for as long as they are kept, and once a day a recovery
    and the run and the files of the cost report.
    """

    MERGED = 0
    """Epochs, names of input files, and the rows of the table in one file."""
    RECORDS = 1
    """Also samples, the catalogue of snapshots, and the runs and events of Dagster, which are kept for a week."""
    INPUT = 2
    """Also snapshots and input of each epoch, which are kept for a day."""
    ALL = 3
    """Also the files and commits of each epoch, which are kept for two hours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """The replica that is primary on a simulated day, with its token."""

    replica: str
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """The last recovery that the live stream had: what is in the control store of it, and the lost replica."""

    lost: ReplicaRow
    incident: Incident
    journal: Sequence[Row]
    samples: Sequence[Row]


@dataclass
class ControlStoreAgeing:
    """Writes what hours and days of a stream leave in the control store."""

    project: Project
    stream: str
    epoch: Epoch
    entry: LedgerEntry
    progress: Sequence[Row]
    recovery: Recovery
    origin: float
    """When the synthetic input began, at its rate."""
    input_folder: Path | None = None
    _arrived_ns: int = 0
    """When the first input of the hour was written: a file system tells the real time at which a file arrived."""

    @classmethod
    def of(
        cls, project: Project, stream: str, *, input_folder: Path | None
    ) -> "ControlStoreAgeing":
        """Read what the live stream left, which is stopped now."""
        store = project.store
        entry = store.ledger.last(stream)
        assert entry is not None
        epoch = store.epochs.get(stream, entry.epoch)
        assert epoch is not None
        _forget_undone(project, stream, entry.epoch)
        newest = store.samples.latest(stream).values()
        last_at = max(sample.at for sample in newest)
        progress = [asdict(sample) for sample in newest if last_at - sample.at < PROGRESS_SECONDS]
        rows = int(epoch.end.get("rows", 0))
        return cls(
            project=project,
            stream=stream,
            origin=store.now() - rows / RATE,
            epoch=epoch,
            entry=entry,
            progress=progress,
            recovery=read_recovery(project, stream),
            input_folder=input_folder,
        )

    def write_hour(
        self, first: int, count: int, begin_at: float, author: Author, detail: Detail = Detail.ALL
    ) -> None:
        """Write `count` epochs, one a second, with ledger entries, copies and samples."""
        self._arrived_ns = int(SYSTEM_CLOCK.now() * 1e9)
        decided = [
            self._epoch(n, begin_at + n - first, author) for n in range(first, first + count)
        ]
        if self.input_folder is not None and detail >= Detail.INPUT:
            self._write_input(decided)
        common = {**asdict(self.entry), "replica": author.replica, "token": author.token}
        entries = [
            {
                **common,
                "epoch": row["epoch"],
                "committed_at": row["decided_at"] + COMMIT_AFTER_SECONDS,
            }
            for row in decided
        ]
        with self._database.write(durable=False) as connection:
            connection.execute(sa.insert(epochs), decided)
            if self.input_folder is not None:
                connection.execute(sa.insert(epoch_files), list(self._files(decided)))
            connection.execute(sa.insert(ledger), entries)
            connection.execute(sa.insert(ledger_copies), entries)
            if detail >= Detail.RECORDS:
                series = self._number_series(connection, author)
                values = list(self._values(series, first, count, begin_at))
                connection.execute(sa.insert(sample_values), values)

    def input_digests(
        self, first: int, count: int, begin_at: float, author: Author
    ) -> dict[int, str]:
        """The digests of the input of as many epochs, one a second."""
        rows = (self._epoch(n, begin_at + n - first, author) for n in range(first, first + count))
        return {row["epoch"]: digest_input(Epoch(**row)) for row in rows}

    def write_recovery(self, day: int, at: float, lost: Author) -> Path:
        """Write the loss of a primary and its recovery, which takes over from it; the folder of the lost one."""
        old, moved = self.recovery, at - self.recovery.incident.opened_at
        names = {
            old.lost.id: lost.replica,
            old.incident.id: f"{old.incident.id[:-6]}{day:06d}",
        }
        folder = Path(old.lost.folder).with_name(lost.replica)
        if Path(old.lost.folder).exists() and not folder.exists():
            shutil.copytree(old.lost.folder, folder, symlinks=True)
            for path in (folder, *folder.rglob("*")):
                os.utime(path, (at, at), follow_symlinks=False)
        with self._database.write(durable=False) as connection:
            for table, rows in (
                (replicas, [_columns(old.lost)]),
                (incidents, [_columns(old.incident)]),
                (journal, old.journal),
            ):
                for row in rows:
                    values = move(table, row, moved, names)
                    values.pop("id" if table is journal else "", None)
                    connection.execute(sa.insert(table), values)
        measured = [move(sample_values, row, moved, names) for row in old.samples]
        self.project.store.samples.write([Sample(**row) for row in measured])
        return folder

    def raise_token(self, token: int) -> None:
        """Let the lease have the token of the last author."""
        with self._database.write() as connection:
            connection.execute(
                sa.update(leases).where(leases.c.stream == self.stream).values(token=token)
            )

    @property
    def _database(self) -> Any:
        return self.project.store._database  # noqa: SLF001 - rows are written in bulk

    def _epoch(self, number: int, at: float, author: Author) -> Row:
        start, end, taken = self._slice(number, at)
        return {
            "stream": self.stream,
            "epoch": number,
            "start": start,
            "end": end,
            "input": taken,
            "rows": RATE,
            "token": author.token,
            "proposer": author.replica,
            "decided_at": at,
        }

    def _slice(self, number: int, at: float) -> tuple[Row, Row, Row]:
        ahead = number - self.epoch.epoch
        if self.input_folder is None:
            last = int(self.epoch.end["rows"])
            first = last + (ahead - 1) * RATE
            start, end = ({"origin": self.origin, "rows": n} for n in (first, first + RATE))
            return start, end, {"first": first, "rows": RATE, "start": self.origin}
        before = int(self.epoch.end["files"]) + ahead - 1
        name, body = input_name(before), input_rows(before)
        changed_ns = int(at) * 1_000_000_000
        place = {**self.epoch.end, TAKEN_UNTIL: self._arrived_ns + MARGIN_NS}
        file = {"name": name, "size": len(body), "changed_ns": changed_ns, "rows": RATE}
        start, end = ({**place, "files": files} for files in (before, before + 1))
        return start, end, {"files": [file]}

    def _write_input(self, decided: Iterable[Row]) -> None:
        assert self.input_folder is not None
        for epoch in decided:
            file = epoch["input"]["files"][0]
            path = self.input_folder / file["name"]
            path.write_bytes(input_rows(epoch["start"]["files"]))
            os.utime(path, ns=(file["changed_ns"], file["changed_ns"]))

    def _files(self, decided: Iterable[Row]) -> Iterator[Row]:
        for epoch in decided:
            file = epoch["input"]["files"][0]
            yield {
                "stream": self.stream,
                "name": file["name"],
                "epoch": epoch["epoch"],
                "size": file["size"],
                "changed_ns": file["changed_ns"],
            }

    def _number_series(self, connection: sa.Connection, author: Author) -> dict[str, int]:
        """The series of the samples of a replica, by name."""
        names = [row["name"] for row in self.progress]
        series = [
            {"stream": self.stream, "replica": author.replica, "name": name} for name in names
        ]
        connection.execute(sqlite.insert(sample_series).on_conflict_do_nothing(), series)
        query = sa.select(sample_series.c.name, sample_series.c.id).where(
            sample_series.c.stream == self.stream, sample_series.c.replica == author.replica
        )
        return {row.name: row.id for row in connection.execute(query)}

    def _values(
        self, series: Mapping[str, int], first: int, count: int, begin_at: float
    ) -> Iterator[Row]:
        for row in self.progress:
            number, value = series[row["name"]], row["value"]
            for second in range(0, count, int(PROGRESS_SECONDS)):
                epoch = row["epoch"] and first + second
                yield {
                    "series": number, "at": begin_at + second, "value": value, "epoch": epoch
                }  # fmt: skip


def _forget_undone(project: Project, stream: str, last: int) -> None:
    """Delete epochs that were decided and not committed before the stream was stopped."""
    with project.store._database.write() as connection:  # noqa: SLF001 - never done in a product
        for table in (epoch_files, epochs):
            undone = sa.and_(table.c.stream == stream, table.c.epoch > last)
            connection.execute(sa.delete(table).where(undone))


def _columns(record: ReplicaRow | Incident) -> Row:
    return {field.name: getattr(record, field.name) for field in fields(record)}


def read_recovery(project: Project, stream: str) -> Recovery:
    """The last recovery of a primary that Dagster did for the stream."""
    store, database = project.store, project.store._database  # noqa: SLF001 - whole rows
    incident = max(store.incidents.of(stream, open_only=False), key=lambda row: row.opened_at)
    assert incident.replica is not None
    lost = store.replicas.get(incident.replica)
    assert lost is not None
    since, until = incident.opened_at - 5, (incident.closed_at or incident.opened_at) + 5
    lines = sa.select(journal).where(journal.c.stream == stream, journal.c.at.between(since, until))
    name = sample_series.c.name
    steps = (
        sa.select(*SAMPLE_FIELDS)
        .join_from(sample_series, sample_values)
        .where(
            sample_series.c.stream == stream,
            sample_values.c.at.between(since, until),
            sa.or_(name.like("t\\_%", escape="\\"), name.like("re%")),
        )
    )
    return Recovery(
        lost=lost,
        incident=incident,
        journal=[dict(row) for row in database.fetch(lines)],
        samples=[dict(row) for row in database.fetch(steps)],
    )


def move(table: sa.Table, row: Row, seconds: float, names: Mapping[str, str]) -> Row:
    """A row at another time, with other names in all its texts."""
    times = {column.name for column in time_columns(table)}
    return {
        key: value + seconds if key in times and value is not None else rename(value, names)
        for key, value in row.items()
    }


def rename(value: Any, names: Mapping[str, str]) -> Any:
    """A value of JSON with the names replaced in all its texts."""
    match value:
        case str():
            for old, new in names.items():
                value = value.replace(old, new)
            return value
        case dict():
            return {key: rename(item, names) for key, item in value.items()}
        case list():
            return [rename(item, names) for item in value]
        case _:
            return value


def time_columns(table: sa.Table) -> list[sa.Column[Any]]:
    """The columns of a table that have times of the store's clock."""
    return [
        column
        for column in table.c
        if (column.name == "at" or column.name.endswith("_at")) and column.name != SINCE_BOOT
    ]


def move_rows(project: Project, seconds: float) -> None:
    """Move all times in the control store."""
    with project.store._database.write() as connection:  # noqa: SLF001 - all tables at once
        for table in metadata.sorted_tables:
            moved = {column.name: column + seconds for column in time_columns(table)}
            if moved:
                connection.execute(sa.update(table).values(moved))
