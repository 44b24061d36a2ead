"""TableRollback a stream's tables: back to what they were after an epoch, and shut for the older history.

Both in one commit. A replica of the older history that wakes up later is refused by the table itself:
its application transaction is at a version that nothing can follow.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from pyarrow import fs

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.resources.object_store.connection import S3Connection
from holdfast.resources.object_store.resolve import delta_options, filesystem
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
    """The turn from one history of a stream to the next."""

    stream: str
    history: int
    epoch: int

    def commit(self, name: Callable[[str, int], str]) -> CommitProperties:
        """What the commit says: the older history has ended, the new one has the epochs up to this."""
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

    def is_rolled(self, name: str) -> bool:
        """Whether the table is open for a writer of this name."""
        with translate_errors(self.path):
            table = self._found()
            return table is not None and table.transaction_version(name) is not None

    def version(self, stream: str, epoch: int) -> int:
        """The version to go back to, which can be read, with all its files; an error says why not."""
        with translate_errors(self.path):
            table = self._needed()
            version = version_after(table, stream, epoch)
            self._require_files(table, version)
        return version

    def roll(self, turn: RollbackPoint) -> int:
        """Take the output back; the version that it was taken back to."""
        return self._commit(writer(turn.stream, turn.history), lambda table: _restore(table, turn))

    def roll_dead_letters(self, turn: RollbackPoint) -> int:
        """Take the dead letters back: those of later epochs are deleted.

        The table is made if it is not there yet, or the older history could make it.
        """
        name = dead_letter_writer(turn.stream, turn.history)
        make_dead_letters(self.path, self._options())
        return self._commit(name, lambda table: _delete_later(table, turn))

    def _commit(self, name: str, act: Callable[[DeltaTable], int]) -> int:
        for _ in range(COMMIT_TRIES):
            with translate_errors(self.path):
                table = self._needed()
                if table.transaction_version(name) is not None:
                    return table.version()
                try:
                    return act(table)
                except CommitFailedError as error:  # another program has just committed
                    log.info("rolling %s: %s", self.path, error)
        raise TransientError(
            f"{self.path} is written to too often to be rolled",
            hint="stop the other program that writes to it, then restore again",
        )

    def _require_files(self, table: DeltaTable, version: int) -> None:
        """A file that is in both versions is there; others may have been vacuumed."""
        try:
            target = DeltaTable(self.path, version=version, storage_options=self._options())
            gone = _files(target) - _files(table)
        except DeltaError as error:
            raise PermanentError(
                f"version {version} of the table {self.path} cannot be read any more: {error}",
                hint="restore to a later epoch: Delta keeps the log of 30 days unless told otherwise",
            ) from error
        if not gone:
            return
        files, root = filesystem(self.path, self.connect)
        infos = files.get_file_info([f"{root}/{file}" for file in sorted(gone)])
        missing = [info.path for info in infos if info.type is fs.FileType.NotFound]
        if missing:
            raise PermanentError(
                f"{len(missing)} files of version {version} of the table {self.path} were vacuumed, "
                f"the first is {missing[0]}",
                hint="restore to a later epoch",
            )

    def _needed(self) -> DeltaTable:
        table = self._found()
        if table is None:
            raise PermanentError(
                f"there is no table {self.path}", hint="was it moved? Check sink.path"
            )
        return table

    def _found(self) -> DeltaTable | None:
        return find_table(self.path, self._options())

    def _options(self) -> dict[str, str]:
        return delta_options(self.path, self.connect)


def _restore(table: DeltaTable, turn: RollbackPoint) -> int:
    version = version_after(table, turn.stream, turn.epoch)
    if version == table.version():
        commit_nothing(table, turn.commit(writer))
    else:
        table.restore(
            version,
            commit_properties=turn.commit(writer),
            post_commithook_properties=WITHOUT_CLEANUP,
        )
    return version


def _delete_later(table: DeltaTable, turn: RollbackPoint) -> int:
    version, commit = table.version(), turn.commit(dead_letter_writer)
    table.delete(
        f"epoch > {turn.epoch}",
        commit_properties=commit,
        post_commithook_properties=WITHOUT_CLEANUP,
    )
    table.update_incremental()
    # Delta commits nothing if there is nothing to delete.
    if table.transaction_version(dead_letter_writer(turn.stream, turn.history)) is None:
        commit_nothing(table, commit)
    return version


def _files(table: DeltaTable) -> set[str]:
    return set(pa.table(table.get_add_actions(flatten=True)).column("path").to_pylist())
