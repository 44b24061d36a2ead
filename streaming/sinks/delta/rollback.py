"""Rolling back a stream's tables to their content after an epoch, and closing them for the older history.

One commit does both. The table itself refuses later commits of a replica of the older history:
its application transaction is at a version that nothing can follow.

No older version of the table is read: files of later epochs are removed, and a merged file that has epochs on both
sides is replaced by one that is cut. The cut file is written and compared before the commit, which succeeds only on the
version that was read.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.resources.clock import SYSTEM_CLOCK
from holdfast.resources.control_store.records import LedgerEntry
from holdfast.resources.object_store.connection import S3Connection
from holdfast.resources.object_store.resolve import delta_options
from holdfast.streaming.sinks.delta.files import LiveFile, TableFolder, replace_files
from holdfast.streaming.sinks.delta.lineage import (
    CLOSED,
    HISTORY,
    RESTORED_TO,
    STREAM,
    dead_letter_writer,
    writer,
)
from holdfast.streaming.sinks.delta.past import find_past, write_cuts
from holdfast.streaming.sinks.delta.table import (
    WITHOUT_CLEANUP,
    commit_nothing,
    find_table,
    make_dead_letters,
    translate_errors,
)

COMMIT_TRIES = 20

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPoint:
    """Where one history of a stream ends and the next begins: `history` is the new one.

    `undone` are the entries that the ledger had after the epoch.
    """

    stream: str
    history: int
    epoch: int
    undone: Sequence[LedgerEntry] = ()

    def commit(self, name: Callable[[str, int], str]) -> CommitProperties:
        """The properties of the commit: the older history is closed, the new one has the epochs up to this."""
        return CommitProperties(
            max_commit_retries=0,  # delta-rs would not look which files there are by then
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
    keep_seconds: float | None = None
    """How long older versions of a table that is created can be read."""

    def is_rolled_back(self, name: str) -> bool:
        """Whether the table is rolled back for this writer, the one of the new history."""
        with translate_errors(self.path):
            table = self._find()
            return table is not None and table.transaction_version(name) is not None

    def require_possible(self, epoch: int, later: Sequence[LedgerEntry]) -> None:
        """Raise if the table cannot be taken back to an epoch; `later` are the entries of the ledger after it."""
        with translate_errors(self.path):
            find_past(self._require_table(), self._folder(), epoch, later)

    def roll_back(self, point: RollbackPoint) -> int:
        """Roll the output back; returns the version of the table after that."""
        rollback = _OutputRollback(point, self._folder(), {})
        return self._commit(writer(point.stream, point.history), rollback.commit)

    def roll_back_dead_letters(self, point: RollbackPoint) -> int:
        """Delete the dead letters of later epochs.

        A missing table is created, so that a replica of the older history cannot create it.
        """
        name = dead_letter_writer(point.stream, point.history)
        make_dead_letters(self.path, self.connect, keep_seconds=self.keep_seconds)
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

    def _require_table(self) -> DeltaTable:
        table = self._find()
        if table is None:
            raise PermanentError(
                f"there is no table {self.path}",
                hint="put the table back if it was moved, or correct sink.path",
            )
        return table

    def _folder(self) -> TableFolder:
        return TableFolder.open(self.path, self.connect)

    def _find(self) -> DeltaTable | None:
        return find_table(self.path, self._options())

    def _options(self) -> dict[str, str]:
        return delta_options(self.path, self.connect)


@dataclass(frozen=True, slots=True)
class _OutputRollback:
    """One rollback, which may need several attempts; what was cut is written once.

    Cut files stay once a commit was tried: the store may have committed, and then answered with an error. Retention
    deletes them if no version of the table names them.
    """

    point: RollbackPoint
    folder: TableFolder
    written: dict[frozenset[str], list[LiveFile]]

    def commit(self, table: DeltaTable) -> int:
        past = find_past(table, self.folder, self.point.epoch, self.point.undone)
        sources = frozenset(cut.file.path for cut in past.cut)
        if sources not in self.written:
            self.written[sources] = write_cuts(table, past, self.folder, self.folder)
        replace_files(
            table,
            removed=past.removed,
            added=self.written[sources],
            commit=self.point.commit(writer),
            at=SYSTEM_CLOCK.now(),
            data_change=True,
        )
        table.update_incremental()
        return table.version()


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
