"""The default sink: a Delta Lake table in which each epoch is one atomic commit, once.

The epoch is the version of Delta's application transaction. Before the commit the sink reads whether
the table has that version; if another replica commits it in between, Delta refuses the second
commit. Either way the epoch is there once, and its input is compared with the one that this replica has read. A table
that was rolled back to an earlier epoch refuses the commits of replicas of the older history.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any
from uuid import uuid4

from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from holdfast.configs.declarations.sinks import DeltaSink as DeltaDeclaration
from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.resources.clock import SYSTEM_CLOCK
from holdfast.resources.control_store.records import LedgerEntry
from holdfast.resources.object_store.resolve import delta_options, open_filesystem
from holdfast.streaming.sinks.delta.lineage import (
    CLOSED,
    DIGEST,
    EPOCH,
    HISTORY,
    INPUT,
    REPLICA,
    ROWS,
    STREAM,
    TOKEN,
    writer,
)
from holdfast.streaming.sinks.delta.table import (
    WITHOUT_CLEANUP,
    find_table,
    make_table,
    require_fit,
    translate_errors,
)
from holdfast.streaming.sinks.ledger_writer import LedgerWriter
from holdfast.streaming.sinks.output import StreamOutput
from holdfast.streaming.sinks.staging import Staged, run_epoch
from holdfast.streaming.sinks.staging_task import Staging
from holdfast.streaming.spec import ReplicaSpec

COMMIT_TRIES = 5
OTHER_COMMITS = 20
MOST_COMMITS = 1000

log = logging.getLogger(__name__)


@dataclass(slots=True)
class EpochCommits:
    """The newest commits of one history of a stream, by epoch, from the table's log; each is read once."""

    stream: str
    history: int
    _by_epoch: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    _version: int = -1
    _first: float = inf

    def find(
        self, table: DeltaTable, epoch: int, *, newest: int, deep: bool = False
    ) -> Mapping[str, Any] | None:
        """Find the commit of an epoch, with its metadata; `None` if the log does not have it.

        `newest` is the newest epoch of the table: it bounds how many commits are read. `deep` also finds one that
        other programs have buried.
        """
        reach = newest - epoch + 1 + OTHER_COMMITS
        self._read(table, reach if epoch < self._first else table.version() - self._version)
        self._first = min(epoch, self._first)
        if deep and epoch not in self._by_epoch:
            self._read(table, MOST_COMMITS)
        return self._by_epoch.get(epoch)

    def _read(self, table: DeltaTable, commits: int) -> None:
        for commit in table.history(min(commits, MOST_COMMITS)) if commits > 0 else ():
            of = (commit.get(STREAM), commit.get(HISTORY, "0"))
            if EPOCH in commit and of == (self.stream, str(self.history)):
                self._by_epoch[int(commit[EPOCH])] = commit
        self._version = table.version()
        for epoch in sorted(self._by_epoch)[:-MOST_COMMITS]:
            del self._by_epoch[epoch]


@dataclass(slots=True)
class DeltaSink:
    """Stages an epoch with Spark's tasks and commits it with delta-rs."""

    spec: ReplicaSpec
    declared: DeltaDeclaration
    ledger: LedgerWriter
    _opened: DeltaTable | None = None
    _fits: bool = False
    _commits: EpochCommits = field(init=False)
    _tried_through: int = -1
    _compared_through: int = -1
    """The newest epoch of the table whose input was compared."""
    _follows: bool = False
    """Whether the table has all output before the first epoch that this replica computes."""

    def __post_init__(self) -> None:
        self._commits = EpochCommits(self.spec.stream.name, self.spec.history)

    def prepare(self, schema: StructType | None) -> None:
        """Open the table; with a schema, create it if it is missing and raise if it does not fit."""
        if self._opened is None:
            self._opened = self._open(schema)
        if self._opened is not None and schema is not None and not self._fits:
            partition_by = self.declared.partition_by
            require_fit(self._opened, self.spec.table, _columns(schema), partition_by)
            self._fits = True

    def is_done(self, epoch: int, *, read: str | None = None) -> bool:
        """Whether the table has the output of an epoch, or the ledger says that there were no rows.

        An epoch that only the table has is entered in the ledger. The table is read before the ledger: so an epoch
        that is missing in the ledger alone was lost, or its replica has died between the two.
        """
        if not self._follows:
            self._require_past(epoch)
        newest = self._newest(update=True)
        entry = self.ledger.entry(epoch)
        if newest < epoch:
            return entry is not None and entry.rows == 0
        commit = self._require_same_input(epoch, read, entered=entry is not None)
        if entry is None and commit is not None:
            self._adopt(commit, epoch)
        return True

    def stage(self, df: DataFrame, epoch: int, *, write: bool) -> Staged:
        """Run the plan; the files go to a new folder that is never used again."""
        staging = Staging(
            table=self.spec.table,
            subfolder=f"data/{epoch:012d}-{self.spec.replica}-{uuid4().hex[:8]}",
            partition_by=self.declared.partition_by,
            connect=self.spec.connect,
        )
        return run_epoch(df, staging if write else None)

    def keep(self, staged: Staged, epoch: int) -> Staged:
        """Do nothing: the files are on the table's storage."""
        return staged

    def commit(self, staged: Staged, epoch: int) -> None:
        """Add the staged files in one transaction, unless another replica has been faster."""
        for _ in range(COMMIT_TRIES if staged.files else 0):
            # Delta refuses what was committed after the table was read, not what was before.
            if self._newest() >= epoch:
                log.info("epoch %s not committed: another replica has committed it", epoch)
                self._require_same_input(epoch, staged.read, entered=False)
                self.discard(staged, epoch)
                return
            if (
                self._newest() > self._compared_through
            ):  # committed late, by a replica that was paused
                self._require_same_input(self._newest(), None, entered=True)
            if self._add(staged, epoch):
                self._compared_through = epoch
                return
        if staged.files:
            raise TransientError(
                f"epoch {epoch} not committed to {self.spec.table}: "
                f"other writers were faster {COMMIT_TRIES} times",
                hint="stop other programs that write to the table; the epoch is retried",
            )

    def discard(self, staged: Staged, epoch: int) -> None:
        """Delete the staged files, unless they may be part of the table.

        A store may commit and then answer with an error. So files that this replica tried to commit stay,
        unless the table shows that another replica committed the epoch; vacuum deletes unused ones later.
        """
        if not staged.files:
            return
        try:
            if epoch <= self._tried_through and not self._is_by_another(epoch):
                log.info(
                    "staged files of epoch %s kept in %s: they may be part of the table",
                    epoch,
                    staged.folder,
                )
                return
            files, root = open_filesystem(self.spec.table, self.spec.connect)
            files.delete_dir(f"{root}/{staged.folder}")
        except (DeltaError, OSError) as error:
            log.warning("staged files of epoch %s not deleted, left to vacuum: %s", epoch, error)

    def _open(self, schema: StructType | None) -> DeltaTable | None:
        path, connect = self.spec.table, self.spec.connect
        output = StreamOutput(self.ledger.store, self.spec.stream.name, path, connect)
        if schema is None:
            table = output.find()
        else:
            columns = _columns(schema)
            table = output.open(
                lambda name: make_table(
                    path,
                    connect,
                    schema=columns,
                    partition_by=self.declared.partition_by,
                    keep_seconds=self.spec.table_versions_seconds,
                    name=name,
                )
            )
        if table is not None:
            self._enter_commits(table)
        return table

    def _enter_commits(self, table: DeltaTable) -> None:
        """Enter the epochs that only the table has."""
        last = self.ledger.last_epoch()
        newest = self._read_newest(table, update=True)
        for epoch in range(last + 1, newest + 1):
            commit = self._commits.find(table, epoch, newest=newest, deep=True)
            if commit is None:
                break
            self._adopt(commit, epoch)

    def _require_past(self, epoch: int) -> None:
        """Raise if the table lacks output of epochs before this one, as an old copy does: they are not computed again.

        The ledger is read before the table, which has an epoch first.
        """
        last = self.ledger.last_with_rows(before=epoch)
        newest = self._newest(update=True)
        if newest < last:
            self.ledger.refuse_table(self.spec.table, newest=newest, last=last)
        self._follows = True

    def _is_by_another(self, epoch: int) -> bool:
        commit = self._find_commit(epoch)
        return commit is not None and commit.get(REPLICA) not in (None, self.spec.replica)

    def _find_commit(self, epoch: int, *, deep: bool = False) -> Mapping[str, Any] | None:
        with translate_errors(self.spec.table):
            return self._commits.find(self._table(), epoch, newest=self._newest(), deep=deep)

    def _require_same_input(
        self, epoch: int, read: str | None, *, entered: bool
    ) -> Mapping[str, Any] | None:
        """The commit of an epoch that the table has; raise if its input is not the one that this replica has read.

        The table's log does not reach back to old epochs: those have to be in the ledger.
        """
        commit = self._find_commit(epoch, deep=not entered)
        if commit is None and not entered:
            reason = f"epoch {epoch}: {self.spec.table} is past it, and neither its log nor the ledger has it"
            self.ledger.refuse(epoch, reason=reason)
        committed = None if commit is None else commit.get(INPUT)
        read = read if committed is None else read or self.ledger.find_decided_input(epoch)
        if None not in (committed, read) and committed != read:
            reason = f"epoch {epoch}: {self.spec.table} has it with other input than {self.spec.replica} has read"
            self.ledger.refuse(epoch, reason=reason)
        self._compared_through = max(self._compared_through, epoch)
        return commit

    def _adopt(self, commit: Mapping[str, Any], epoch: int) -> None:
        """Enter an epoch that the table has and the ledger does not, as the table has it.

        Its replica died between the two, or the control store has lost its last commits. If the epoch was decided
        again since, the ledger refuses it. Commits of older versions of Holdfast have no rows: the replica that
        computes the epoch next enters it.
        """
        if ROWS not in commit:
            return
        self.ledger.enter(
            LedgerEntry(
                stream=self.spec.stream.name,
                epoch=epoch,
                replica=commit[REPLICA],
                token=int(commit[TOKEN]),
                rows=int(commit[ROWS]),
                digest=commit[DIGEST],
            ),
            read=commit.get(INPUT),
        )

    def _add(self, staged: Staged, epoch: int) -> bool:
        """Try to commit; `False` if the table has changed: it is read again before the next attempt."""
        table = self._table()
        self._tried_through = max(self._tried_through, epoch)
        with translate_errors(self.spec.table):
            try:
                self._write(table, staged, epoch)
            except CommitFailedError as error:
                log.info("epoch %s not committed, trying again: %s", epoch, error)
                table.update_incremental()
                return False
            except DeltaError:
                table.update_incremental()  # the version that was read may be gone from the log
                raise
        return True

    def _write(self, table: DeltaTable, staged: Staged, epoch: int) -> None:
        decided = staged.read or self.ledger.find_decided_input(epoch)
        table.create_write_transaction(
            [
                AddAction(
                    path=file.path,
                    size=file.size_bytes,
                    partition_values=file.partition_values(),
                    modification_time=int(SYSTEM_CLOCK.now() * 1000),
                    data_change=True,
                    stats=json.dumps({"numRecords": file.rows}),
                )
                for file in staged.files
            ],
            "append",
            table.schema(),
            partition_by=list(self.declared.partition_by),
            commit_properties=CommitProperties(
                app_transactions=[Transaction(self._app_id, epoch)],
                custom_metadata={
                    STREAM: self.spec.stream.name,
                    EPOCH: str(epoch),
                    HISTORY: str(self.spec.history),
                    REPLICA: self.spec.replica,
                    TOKEN: str(self.ledger.lease.token),
                    DIGEST: staged.digest,
                    ROWS: str(staged.rows),
                    **({} if decided is None else {INPUT: decided}),
                },
            ),
            post_commithook_properties=WITHOUT_CLEANUP,
        )

    def _newest(self, *, update: bool = False) -> int:
        """The newest epoch in the table as it was last read; -1 if there is none."""
        return -1 if self._opened is None else self._read_newest(self._opened, update=update)

    def _read_newest(self, table: DeltaTable, *, update: bool) -> int:
        with translate_errors(self.spec.table):
            if update:
                table.update_incremental()
            try:
                version = table.transaction_version(self._app_id)
            except DeltaError:  # it reads the log, which may be deleted since the table was read
                table.update_incremental()
                version = table.transaction_version(self._app_id)
        if version == CLOSED:
            raise PermanentError(
                f"the table {self.spec.table} was rolled back to an earlier epoch: "
                f"history {self.spec.history} of {self.spec.stream.name} has ended",
                hint="do nothing: a replica of the current history continues",
            )
        return -1 if version is None else version

    def _table(self) -> DeltaTable:
        assert self._opened is not None, "`prepare` has been called with a schema"  # noqa: S101
        return self._opened

    @property
    def _app_id(self) -> str:
        return writer(self.spec.stream.name, self.spec.history)


def require_output_fits(spec: ReplicaSpec, declared: DeltaDeclaration, schema: StructType) -> None:
    """Raise if there is a table and the columns of the output are not those of the table."""
    table = find_table(spec.table, delta_options(spec.table, spec.connect))
    if table is not None:
        require_fit(table, spec.table, _columns(schema), declared.partition_by)


def _columns(schema: StructType) -> Schema:
    return Schema.from_arrow(to_arrow_schema(schema, timezone="UTC"))
