"""The dead-letter table: the records that the source of a stream has rejected, one commit an epoch.

The epoch log has which records those are, so any replica that sends the epoch can write them. They are
written before the epoch's output: an epoch that is in the ledger has its dead letters in the table. Their file
is staged in a folder like those of the output, so that retention recognises one that was never committed.
"""

import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction
from pyarrow import fs

from holdfast.ft_policies.errors import TransientError
from holdfast.resources.clock import SYSTEM_CLOCK
from holdfast.resources.control_store.records import Sample
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.object_store.resolve import open_filesystem
from holdfast.resources.retry import retry_transient
from holdfast.streaming.sinks.delta.lineage import dead_letter_writer
from holdfast.streaming.sinks.delta.table import (
    DEAD_LETTERS,
    WITHOUT_CLEANUP,
    make_dead_letters,
    translate_errors,
)
from holdfast.streaming.sinks.output import StreamOutput
from holdfast.streaming.sources.factory import arrow_columns, open_source
from holdfast.streaming.sources.files import FilesSource, none_assigned, records_aside
from holdfast.streaming.sources.validation import RejectedRecord
from holdfast.streaming.spec import ReplicaSpec

COMMIT_TRIES = 5

log = logging.getLogger(__name__)


@dataclass(slots=True)
class DeadLetterTable:
    """A Delta table beside the stream's own."""

    spec: ReplicaSpec
    store: ControlStore
    _source: FilesSource | None = None
    _table: DeltaTable | None = None

    def send(self, epoch: int) -> None:
        """Read the rejected records of an epoch again, and add them in one transaction."""
        name = self.spec.stream.name
        decided = retry_transient(
            lambda: self.store.epochs.get(name, epoch),
            what=f"reading epoch {epoch} from the epoch log",
        )
        count = 0 if decided is None else records_aside(decided.input)
        if decided is None or count == 0:
            return
        self._add(_rows(epoch, self._open_source().aside(decided.input)), epoch)
        self._sample(count, epoch)

    def _add(self, rows: pa.Table, epoch: int) -> None:
        for _ in range(COMMIT_TRIES):
            with translate_errors(self.spec.dead_letters):
                table = self._open_table()
                table.update_incremental()
                newest = table.transaction_version(self._app_id)
                if newest is not None and newest >= epoch:
                    return
                try:
                    self._write(table, rows, epoch)
                except CommitFailedError as error:
                    log.info(
                        "dead letters of epoch %s not committed, trying again: %s", epoch, error
                    )
                else:
                    return
        raise TransientError(
            f"dead letters of epoch {epoch} not committed: other writers were faster {COMMIT_TRIES} times",
            hint="stop other programs that write to the dead-letter table; the epoch is retried",
        )

    def _write(self, table: DeltaTable, rows: pa.Table, epoch: int) -> None:
        files, root = open_filesystem(self.spec.dead_letters, self.spec.connect)
        folder = f"data/{epoch:012d}-{self.spec.replica}-{uuid4().hex[:8]}"
        if isinstance(files, fs.LocalFileSystem):
            files.create_dir(f"{root}/{folder}", recursive=True)
        path = f"{folder}/part-0.parquet"
        pq.write_table(rows, f"{root}/{path}", filesystem=files)
        table.create_write_transaction(
            [
                AddAction(
                    path=path,
                    size=files.get_file_info(f"{root}/{path}").size,
                    partition_values={},
                    modification_time=int(SYSTEM_CLOCK.now() * 1000),
                    data_change=True,
                    stats=json.dumps({"numRecords": rows.num_rows}),
                )
            ],
            "append",
            table.schema(),
            commit_properties=CommitProperties(app_transactions=[Transaction(self._app_id, epoch)]),
            post_commithook_properties=WITHOUT_CLEANUP,
        )

    def _sample(self, count: int, epoch: int) -> None:
        stream, replica = self.spec.stream.name, self.spec.replica
        name = SampleName.DEAD_LETTERS
        sample = Sample(stream=stream, replica=replica, name=name, value=float(count), epoch=epoch)
        try:
            self.store.samples.write([sample])
        except TransientError as error:
            log.warning("dead letters of epoch %s not counted: %s", epoch, error)

    def _open_source(self) -> FilesSource:
        if self._source is None:
            source = open_source(self.spec, arrow_columns(self.spec.stream.source), none_assigned)
            assert isinstance(source, FilesSource)  # noqa: S101 - no other source rejects records
            self._source = source
        return self._source

    def _open_table(self) -> DeltaTable:
        if self._table is None:
            path, connect = self.spec.dead_letters, self.spec.connect
            keep = self.spec.table_versions_seconds
            place = StreamOutput.of_dead_letters(self.store, self.spec.stream.name, path, connect)
            self._table = place.open(
                lambda name: make_dead_letters(path, connect, keep_seconds=keep, name=name)
            )
        return self._table

    @property
    def _app_id(self) -> str:
        return dead_letter_writer(self.spec.stream.name, self.spec.history)


def _rows(epoch: int, aside: Iterable[tuple[str, RejectedRecord]]) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "epoch": epoch,
                "file": file,
                "position": record.position,
                "reason": record.reason,
                "record": record.record,
            }
            for file, record in aside
        ],
        schema=DEAD_LETTERS,
    )
