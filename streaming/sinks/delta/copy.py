"""Copying a table as it was after an epoch: the files first, then one commit that names them all.

A copy that was cut short is a table without rows; another attempt writes the same files.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import PurePosixPath

from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyarrow import fs

from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.clock import SYSTEM_CLOCK
from holdfast.resources.control_store.records import LedgerEntry
from holdfast.resources.object_store.connection import S3Connection
from holdfast.resources.object_store.resolve import delta_options
from holdfast.streaming.sinks.delta.files import LiveFile, TableFolder, add_action
from holdfast.streaming.sinks.delta.lineage import COPIED_THROUGH, STREAM
from holdfast.streaming.sinks.delta.past import find_past, write_cuts
from holdfast.streaming.sinks.delta.table import (
    commit_nothing,
    find_table,
    make_dead_letters,
    require_empty,
    translate_errors,
)

COPIED_FROM = "holdfast.copied_from"
_PARALLEL = 8
_COPY = "00000000"
"""In the name of a folder that is cut: another attempt writes the same one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCopy:
    """A table to come: the epochs of another one up to `epoch`, under the name of a new writer."""

    source: str
    target: str
    stream: str
    writer: str
    epoch: int
    connect: Callable[[], S3Connection]
    keep_seconds: float

    def is_done(self) -> bool:
        """Whether the copy is complete; raises if another table or other files are at its path."""
        with translate_errors(self.target):
            table = find_table(self.target, delta_options(self.target, self.connect))
            if table is None:
                require_empty(self.target, self.connect)
                return False
            copied_through = table.transaction_version(self.writer)
            if copied_through == self.epoch:
                return True
            if copied_through is not None or table.version() > 0:
                raise PermanentError(
                    f"{self.target} already holds a table",
                    hint="name another path for the output of the fork",
                )
        return False

    def require_copyable(self, later: Sequence[LedgerEntry]) -> None:
        """Raise if there is no table, or if its files do not show its rows up to the epoch.

        `later` are the entries of the ledger after the epoch.
        """
        with translate_errors(self.source):
            find_past(self._require_source(), self._folder(self.source), self.epoch, later)

    def _require_source(self) -> DeltaTable:
        table = find_table(self.source, delta_options(self.source, self.connect))
        if table is None:
            raise PermanentError(
                f"no output to fork: there is no table {self.source}",
                hint="put the table back if it was moved, or correct sink.path",
            )
        return table

    def copy_dead_letters(self) -> int:
        """Copy the dead letters up to the epoch, which are few; returns the number of rows."""
        with translate_errors(self.source):
            source = find_table(self.source, delta_options(self.source, self.connect))
            filters = [("epoch", "<=", self.epoch)]
            rows = None if source is None else source.to_pyarrow_table(filters=filters)
        with translate_errors(self.target):
            table = make_dead_letters(self.target, self.connect, keep_seconds=self.keep_seconds)
            if rows is None or rows.num_rows == 0:
                commit_nothing(table, self._properties())
                return 0
            write_deltalake(table, rows, mode="append", commit_properties=self._properties())
        return int(rows.num_rows)

    def copy(self, later: Sequence[LedgerEntry]) -> int:
        """Copy the source as it was after the epoch; returns the number of files."""
        with translate_errors(self.source):
            table, source = self._require_source(), self._folder(self.source)
            past, target = find_past(table, source, self.epoch, later), self._folder(self.target)
            _copy_files(source, target, past.stay)
            cut = write_cuts(table, past, source, target, unique=_COPY)
        files = [*past.stay, *cut]
        with translate_errors(self.target):
            self._commit(table, files)
        return len(files)

    def _folder(self, path: str) -> TableFolder:
        return TableFolder.open(path, self.connect)

    def _commit(self, source: DeltaTable, files: Sequence[LiveFile]) -> None:
        metadata, at = source.metadata(), SYSTEM_CLOCK.now()
        table = DeltaTable.create(
            self.target,
            schema=source.schema(),
            mode="ignore",
            partition_by=metadata.partition_columns,
            configuration=metadata.configuration,
            storage_options=delta_options(self.target, self.connect),
        )
        table.update_incremental()
        if table.transaction_version(self.writer) is not None:
            return  # another run has copied it just now
        table.create_write_transaction(
            [add_action(file, at, data_change=True) for file in files],
            "append",
            table.schema(),
            partition_by=metadata.partition_columns,
            commit_properties=self._properties(),
        )

    def _properties(self) -> CommitProperties:
        return CommitProperties(
            app_transactions=[Transaction(self.writer, self.epoch)],
            custom_metadata={
                STREAM: self.stream,
                COPIED_THROUGH: str(self.epoch),
                COPIED_FROM: self.source,
            },
        )


def _copy_files(source: TableFolder, target: TableFolder, copied: Sequence[LiveFile]) -> None:
    def copy(file: LiveFile) -> None:
        path = target.resolve(file.path)
        if isinstance(target.files, fs.LocalFileSystem):
            target.files.create_dir(str(PurePosixPath(path).parent), recursive=True)
        fs.copy_files(
            source.resolve(file.path),
            path,
            source_filesystem=source.files,
            destination_filesystem=target.files,
        )

    with ThreadPoolExecutor(_PARALLEL) as pool:
        list(pool.map(copy, copied))
