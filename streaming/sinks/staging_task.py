"""What each Spark task does with the output of an epoch: write it, count it, hash it.

It runs in Spark's Python workers, so it imports little.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyarrow import dataset, fs
from pyspark import TaskContext

from holdfast.resources.object_store.connection import S3Connection
from holdfast.resources.object_store.resolve import open_filesystem
from holdfast.streaming.workers import freeze_imports

HASH = "__holdfast_hash"
COLUMNS = "path string, size_bytes bigint, rows bigint, hash bigint"
REPORT = pa.schema(
    [
        ("path", pa.string()),
        ("size_bytes", pa.int64()),
        ("rows", pa.int64()),
        ("hash", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """Where the files of one epoch go."""

    table: str
    subfolder: str
    partition_by: tuple[str, ...]
    connect: Callable[[], S3Connection]


@dataclass(frozen=True)
class StagingTask:
    """What each Spark task does: it returns a row for each file, and one with the total rows and hash."""

    staging: Staging | None
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tally = _Tally(self.schema)
        counted = tally.count(batches)
        if self.staging is None:
            files = []
            for _ in counted:
                pass
        else:
            files = self._write(self.staging, counted)
        rows = [*files, {"path": None, "size_bytes": 0, "rows": tally.rows, "hash": tally.hash}]
        yield pa.RecordBatch.from_pylist(rows, schema=REPORT)
        if TaskContext.get() is not None:
            freeze_imports()

    def _write(
        self, staging: Staging, batches: Iterator[pa.RecordBatch]
    ) -> list[dict[str, str | int]]:
        files, root = open_filesystem(staging.table, staging.connect)
        context = TaskContext.get()
        task = f"{context.partitionId():05d}-{context.taskAttemptId()}" if context else "0"
        written: list[dict[str, str | int]] = []
        dataset.write_dataset(
            batches,
            f"{root}/{staging.subfolder}",
            schema=self.schema,
            format="parquet",
            filesystem=files,
            basename_template=f"part-{task}-{{i}}.parquet",
            partitioning=_hive(self.schema, staging.partition_by),
            existing_data_behavior="overwrite_or_ignore",
            create_dir=isinstance(files, fs.LocalFileSystem),
            file_visitor=lambda file: written.append(
                {
                    "path": file.path.removeprefix(f"{root}/"),
                    "size_bytes": file.size,
                    "rows": file.metadata.num_rows,
                    "hash": 0,
                }
            ),
        )
        return [file for file in written if file["rows"]]


class _Tally:
    """Counts the rows that pass, sums their hashes, and removes the hash column."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._hash = np.uint64(0)
        self.rows = 0

    @property
    def hash(self) -> int:
        """The sum of hashes, as the signed number that Spark can carry."""
        return int(self._hash.astype(np.int64))

    def count(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            hashes = batch.column(HASH).to_numpy().view(np.uint64)
            self._hash = np.add.reduce(hashes, initial=self._hash)
            self.rows += batch.num_rows
            yield batch.drop_columns([HASH]).cast(self._schema)


def _hive(schema: pa.Schema, names: tuple[str, ...]) -> dataset.Partitioning | None:
    if not names:
        return None
    return dataset.partitioning(pa.schema([schema.field(name) for name in names]), flavor="hive")
