"""The default sink: a Delta Lake table in which each epoch is one atomic commit, once.

The epoch is the version of Delta's application transaction. Before the commit the table is asked
whether it has that version; between the question and the commit another replica may be faster, and
then Delta refuses the commit. Either way the epoch is there once.
"""

import json
import logging
from dataclasses import dataclass

from deltalake import (
    CommitProperties,
    DeltaTable,
    PostCommitHookProperties,
    Schema,
    Transaction,
)
from deltalake.exceptions import (
    CommitFailedError,
    DeltaError,
    DeltaProtocolError,
    SchemaMismatchError,
)
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from configs.sinks import DeltaSink as DeltaDeclaration
from ft_policies.errors import HoldfastError, PermanentError, TransientError
from resources.clock import SYSTEM_CLOCK
from streaming.connections import delta_options
from streaming.sinks.ledgering import Ledgering
from streaming.sinks.staging import Staged, run_epoch
from streaming.sinks.staging_task import Staging
from streaming.spec import ReplicaSpec

COMMIT_TRIES = 5

log = logging.getLogger(__name__)


@dataclass(slots=True)
class DeltaSink:
    """Stages an epoch with Spark's tasks, commits it with delta-rs, enters it in the ledger."""

    spec: ReplicaSpec
    declared: DeltaDeclaration
    ledgering: Ledgering
    _opened: DeltaTable | None = None

    def __call__(self, df: DataFrame, epoch: int) -> None:
        """Process and commit one epoch; an epoch that is committed already is only digested."""
        table = self._table(df.schema)
        done = self._is_done(table, epoch)
        staged = self.stage(df, epoch, write=not done)
        if not done and staged.files:
            self.commit(table, staged, epoch)
        self.ledgering.write(epoch, rows=staged.rows, digest=staged.digest)

    def stage(self, df: DataFrame, epoch: int, *, write: bool) -> Staged:
        """Run the plan; the files go to a folder that only this incarnation writes to."""
        staging = Staging(
            table=self.spec.table,
            subfolder=f"data/{epoch:012d}-{self.spec.replica}",
            partition_by=self.declared.partition_by,
            connect=self.spec.connect,
        )
        return run_epoch(df, staging if write else None)

    def commit(self, table: DeltaTable, staged: Staged, epoch: int) -> None:
        """Add the staged files in one transaction, unless another replica has been faster."""
        for _ in range(COMMIT_TRIES):
            try:
                self._add(table, staged, epoch)
            except CommitFailedError as error:
                table.update_incremental()
                if self._is_in(table, epoch):
                    # By another replica, or by us: a store may commit and then answer with an error.
                    # So the files stay; if the table does not name them, vacuum finds them.
                    log.info("epoch %s is in the table: %s", epoch, error)
                    return
            except (DeltaError, OSError) as error:
                raise _translated(self.spec.table, error) from error
            else:
                return
        raise TransientError(
            f"epoch {epoch} lost {COMMIT_TRIES} races for a commit to {self.spec.table}",
            hint="another program writes to the table very often; the epoch is tried again",
        )

    def _add(self, table: DeltaTable, staged: Staged, epoch: int) -> None:
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
                    "holdfast.stream": self.spec.stream.name,
                    "holdfast.epoch": str(epoch),
                    "holdfast.replica": self.spec.replica,
                    "holdfast.token": str(self.ledgering.token()),
                    "holdfast.digest": staged.digest,
                },
            ),
            # Looking for old log files with each commit takes longer with each commit.
            post_commithook_properties=PostCommitHookProperties(cleanup_expired_logs=False),
        )

    def _table(self, schema: StructType) -> DeltaTable:
        if self._opened is None:
            self._opened = self._open(schema)
        try:
            self._opened.update_incremental()
        except (DeltaError, OSError) as error:
            raise _translated(self.spec.table, error) from error
        return self._opened

    def _open(self, schema: StructType) -> DeltaTable:
        wanted = Schema.from_arrow(to_arrow_schema(schema, timezone="UTC"))
        try:
            table = DeltaTable.create(
                self.spec.table,
                schema=wanted,
                mode="ignore",
                partition_by=list(self.declared.partition_by),
                storage_options=delta_options(self.spec.table, self.spec.connect),
            )
        except (DeltaError, OSError) as error:
            raise _translated(self.spec.table, error) from error
        _demand_same_columns(self.spec.table, table.schema(), wanted)
        _demand_same_partitions(
            self.spec.table, table.metadata().partition_columns, self.declared.partition_by
        )
        return table

    def _is_done(self, table: DeltaTable, epoch: int) -> bool:
        """Whether the output of an epoch is there already; the table knows best.

        The ledger only says that there was nothing to write. A replica enters an epoch in the ledger
        before it commits the next one, so a table that is further than the ledger is not ours.
        """
        entry = self.ledgering.entry(epoch)
        if entry is None and self._is_in(table, epoch + 1):
            raise PermanentError(
                f"the table {self.spec.table} has epochs after {epoch} of which the ledger knows nothing",
                hint="another control store has written to it: check control_store.url and sink.path",
            )
        return self._is_in(table, epoch) or (entry is not None and entry.rows == 0)

    def _is_in(self, table: DeltaTable, epoch: int) -> bool:
        version = table.transaction_version(self._app_id)
        return version is not None and version >= epoch

    @property
    def _app_id(self) -> str:
        return f"holdfast/{self.spec.stream.name}"


def _demand_same_columns(table: str, there: Schema, wanted: Schema) -> None:
    has = {field.name: str(field.type) for field in there.fields}
    gives = {field.name: str(field.type) for field in wanted.fields}
    if has != gives:
        raise PermanentError(
            f"the stream's output does not fit the table {table}: "
            f"the table has {has}, the stream gives {gives}",
            hint="give the sink another path, or build the columns that the table has",
        )


def _demand_same_partitions(table: str, there: list[str], wanted: tuple[str, ...]) -> None:
    if list(wanted) != list(there):
        raise PermanentError(
            f"the table {table} is partitioned by {there}, the stream declares {list(wanted)}",
            hint="declare the partitions that the table has, or give the sink another path",
        )


def _translated(table: str, error: Exception) -> HoldfastError:
    if isinstance(error, DeltaProtocolError | SchemaMismatchError | PermissionError):
        return PermanentError(
            f"the table {table} cannot be written: {error}",
            hint="check the table's protocol and columns, and who may write to its folder",
        )
    return TransientError(
        f"the table {table} cannot be read or written: {error}",
        hint="the epoch is tried again until the storage answers",
    )
