"""Copying a table as it was after an epoch: the files first, then one commit that names them all.

A copy that was cut short is a table without rows; another attempt writes the same files.
"""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.transaction import AddAction
from pyarrow import fs

from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.object_store.connection import S3Connection
from holdfast.resources.object_store.resolve import delta_options, open_filesystem
from holdfast.streaming.sinks.delta_table import (
    commit_nothing,
    find_table,
    make_dead_letters,
    partition_values,
    require_empty,
    translate_errors,
)
from holdfast.streaming.sinks.lineage import COPIED_THROUGH, STREAM

COPIED_FROM = "holdfast.copied_from"
CANNOT_COPY = frozenset({"deletionVectors", "columnMapping"})
_PARALLEL = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCopy:
    """A table to come: the epochs of another one up to `epoch`, under the name of a new writer."""

    source: str
    target: str
    stream: str
    writer: str
    epoch: int
    connect: Callable[[], S3Connection]

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

    def require_copyable(self) -> None:
        """Raise if a copy of the table's files would not be a copy of its rows, or if there is no table."""
        with translate_errors(self.source):
            table = find_table(self.source, delta_options(self.source, self.connect))
            if table is None:
                raise PermanentError(
                    f"no output to fork: there is no table {self.source}",
                    hint="put the table back if it was moved, or correct sink.path",
                )
            features = set(table.protocol().reader_features or ())
        if features & CANNOT_COPY:
            raise PermanentError(
                f"the table {self.source} cannot be copied file by file: "
                f"it uses {', '.join(sorted(features & CANNOT_COPY))}",
                hint="copy the table with another tool, and declare a stream that starts from epoch 0",
            )

    def copy_dead_letters(self) -> int:
        """Copy the dead letters up to the epoch, which are few; returns the number of rows."""
        with translate_errors(self.source):
            source = find_table(self.source, delta_options(self.source, self.connect))
            filters = [("epoch", "<=", self.epoch)]
            rows = None if source is None else source.to_pyarrow_table(filters=filters)
        with translate_errors(self.target):
            table = make_dead_letters(self.target, self.connect)
            if rows is None or rows.num_rows == 0:
                commit_nothing(table, self._properties())
                return 0
            write_deltalake(table, rows, mode="append", commit_properties=self._properties())
        return int(rows.num_rows)

    def copy(self, version: int) -> int:
        """Copy a version of the source; returns the number of files."""
        with translate_errors(self.source):
            options = delta_options(self.source, self.connect)
            source = DeltaTable(self.source, version=version, storage_options=options)
            actions = pa.table(source.get_add_actions(flatten=True)).to_pylist()
            files = [{**file, "path": unquote(file["path"])} for file in actions]
            self._copy_files([file["path"] for file in files])
        with translate_errors(self.target):
            self._commit(source, files)
        return len(files)

    def _copy_files(self, paths: list[str]) -> None:
        source, source_root = open_filesystem(self.source, self.connect)
        target, target_root = open_filesystem(self.target, self.connect)

        def copy(path: str) -> None:
            target_path = f"{target_root}/{path}"
            if isinstance(target, fs.LocalFileSystem):
                target.create_dir(str(PurePosixPath(target_path).parent), recursive=True)
            fs.copy_files(
                f"{source_root}/{path}",
                target_path,
                source_filesystem=source,
                destination_filesystem=target,
            )

        with ThreadPoolExecutor(_PARALLEL) as pool:
            list(pool.map(copy, paths))

    def _commit(self, source: DeltaTable, files: list[dict[str, Any]]) -> None:
        metadata = source.metadata()
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
            [_add_action(file) for file in files],
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


def _add_action(file: dict[str, Any]) -> AddAction:
    return AddAction(
        path=file["path"],
        size=file["size_bytes"],
        partition_values=partition_values(file["path"]),
        modification_time=file["modification_time"],
        data_change=True,
        stats=json.dumps({"numRecords": file["num_records"]} if file.get("num_records") else {}),
    )
