"""Rolling back a stream's tables to their content after an epoch, and closing them for the older history.

One commit does both. The table itself refuses later commits of a replica of the older history:
its application transaction is at a version that nothing can follow.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from pyarrow import fs

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.resources.object_store.connection import S3Connection
from holdfast.resources.object_store.resolve import delta_options, open_filesystem
from holdfast.streaming.sinks.delta_table import (
    WITHOUT_CLEANUP,
    commit_nothing,
    find_table,
    make_dead_letters,
    translate_errors,
)
from holdfast.streaming.sinks.lineage import (
    CLOSED,
    HISTORY,
    RESTORED_TO,
    STREAM,
    dead_letter_writer,
    version_after,
    writer,
)

COMMIT_TRIES = 20

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPoint:
    """Where one history of a stream ends and the next begins: `history` is the new one."""

    stream: str
    history: int
    epoch: int

    def commit(self, name: Callable[[str, int], str]) -> CommitProperties:
        """The properties of the commit: the older history is closed, the new one has the epochs up to this."""
        return CommitProperties(
            app_transactions=[
                Transaction(name(self.stream, self.history - 1), CLOSED),
                Transaction(name(self.stream, self.history), self.epoch),
            ],
            custom_metadata={
                STREAM: self.stream,
                HISTORY: str(self.history),
                RESTORED_TO: str(self.epoch),
            },
        )


@dataclass(frozen=True, slots=True)
class TableRollback:
    """One table, and how to reach it."""

    path: str
    connect: Callable[[], S3Connection]

    def is_rolled_back(self, name: str) -> bool:
        """Whether the table is rolled back for this writer, the one of the new history."""
        with translate_errors(self.path):
            table = self._find()
            return table is not None and table.transaction_version(name) is not None

    def version(self, stream: str, epoch: int) -> int:
        """The version to go back to; raises if it cannot be read with all its files."""
        with translate_errors(self.path):
            table = self._require_table()
            version = version_after(table, stream, epoch)
            self._require_files(table, version)
        return version

    def roll_back(self, point: RollbackPoint) -> int:
        """Roll the output back; returns the version that it was rolled back to."""
        name = writer(point.stream, point.history)
        return self._commit(name, lambda table: _restore(table, point))

    def roll_back_dead_letters(self, point: RollbackPoint) -> int:
        """Delete the dead letters of later epochs.

        A missing table is created, so that a replica of the older history cannot create it.
        """
        name = dead_letter_writer(point.stream, point.history)
        make_dead_letters(self.path, self.connect)
        return self._commit(name, lambda table: _delete_later(table, point))

    def _commit(self, name: str, act: Callable[[DeltaTable], int]) -> int:
        for _ in range(COMMIT_TRIES):
            with translate_errors(self.path):
                table = self._require_table()
                if table.transaction_version(name) is not None:
                    return table.version()
                try:
                    return act(table)
                except CommitFailedError as error:  # another program has just committed
                    log.info("rollback of %s not committed, trying again: %s", self.path, error)
        raise TransientError(
            f"the table {self.path} was not rolled back: other writers were faster {COMMIT_TRIES} times",
            hint="stop the other programs that write to the table, then restore again",
        )

    def _require_files(self, table: DeltaTable, version: int) -> None:
        """Raise if files of a version are missing; only files that the current version lacks can be."""
        try:
            target = DeltaTable(self.path, version=version, storage_options=self._options())
            gone = _files(target) - _files(table)
        except DeltaError as error:
            raise PermanentError(
                f"version {version} of the table {self.path} can no longer be read: {error}",
                hint="restore to a later epoch: by default Delta keeps the log of the last 30 days",
            ) from error
        if not gone:
            return
        files, root = open_filesystem(self.path, self.connect)
        entries = files.get_file_info([f"{root}/{file}" for file in sorted(gone)])
        missing = [entry.path for entry in entries if entry.type is fs.FileType.NotFound]
        if missing:
            raise PermanentError(
                f"{len(missing)} files of version {version} of the table {self.path} were vacuumed, "
                f"such as {missing[0]}",
                hint="restore to a later epoch",
            )

    def _require_table(self) -> DeltaTable:
        table = self._find()
        if table is None:
            raise PermanentError(
                f"there is no table {self.path}",
                hint="put the table back if it was moved, or correct sink.path",
            )
        return table

    def _find(self) -> DeltaTable | None:
        return find_table(self.path, self._options())

    def _options(self) -> dict[str, str]:
        return delta_options(self.path, self.connect)


def _restore(table: DeltaTable, point: RollbackPoint) -> int:
    version = version_after(table, point.stream, point.epoch)
    if version == table.version():
        commit_nothing(table, point.commit(writer))
    else:
        table.restore(
            version,
            commit_properties=point.commit(writer),
            post_commithook_properties=WITHOUT_CLEANUP,
        )
    return version


def _delete_later(table: DeltaTable, point: RollbackPoint) -> int:
    version, commit = table.version(), point.commit(dead_letter_writer)
    table.delete(
        f"epoch > {point.epoch}",
        commit_properties=commit,
        post_commithook_properties=WITHOUT_CLEANUP,
    )
    table.update_incremental()
    # Delta commits nothing if there is nothing to delete.
    if table.transaction_version(dead_letter_writer(point.stream, point.history)) is None:
        commit_nothing(table, commit)
    return version


def _files(table: DeltaTable) -> set[str]:
    """The files of a table by their names in storage: the log has them encoded."""
    paths = pa.table(table.get_add_actions(flatten=True)).column("path").to_pylist()
    return {unquote(path) for path in paths}
