"""The default sink: a Delta Lake table in which each epoch is one atomic commit, once.

The epoch is the version of Delta's application transaction. Before the commit the table is asked
whether it has that version; between the question and the commit another replica may be faster, and
then Delta refuses the commit. Either way the epoch is there once.
"""

import json
import logging
from dataclasses import dataclass

from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from configs.sinks import DeltaSink as DeltaDeclaration
from ft_policies.errors import PermanentError, TransientError
from streaming.connections import delta_options, filesystem
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
        done = self.ledgering.has(epoch) or self._is_in(table, epoch)
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
                return self._add(table, staged, epoch)
            except CommitFailedError as error:
                table.update_incremental()
                if self._is_in(table, epoch):
                    log.info("epoch %s was committed by another replica: %s", epoch, error)
                    return self._drop(staged)
            except (DeltaError, OSError) as error:
                raise _unreachable(self.spec.table, error) from error
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
                    modification_time=0,
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
        )

    def _table(self, schema: StructType) -> DeltaTable:
        if self._opened is None:
            self._opened = self._open(schema)
        try:
            self._opened.update_incremental()
        except (DeltaError, OSError) as error:
            raise _unreachable(self.spec.table, error) from error
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
            raise _unreachable(self.spec.table, error) from error
        _demand_same_columns(self.spec.table, table.schema(), wanted)
        return table

    def _is_in(self, table: DeltaTable, epoch: int) -> bool:
        version = table.transaction_version(self._app_id)
        return version is not None and version >= epoch

    def _drop(self, staged: Staged) -> None:
        files, root = filesystem(self.spec.table, self.spec.connect)
        for file in staged.files:
            files.delete_file(f"{root}/{file.path}")

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


def _unreachable(table: str, error: Exception) -> TransientError:
    return TransientError(
        f"the table {table} cannot be read or written: {error}",
        hint="the epoch is tried again until the storage answers",
    )
