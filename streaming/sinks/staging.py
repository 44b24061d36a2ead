"""Running an epoch's plan once: Spark tasks write its rows as parquet files and digest them.

The digest is the sum of the rows' hashes modulo 2^64, so neither the order of rows nor their
division into tasks matters: two replicas that computed the same rows have the same digest.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from pyarrow import dataset, fs
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, functions as sf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from resources.object_store import S3Connection
from streaming.connections import filesystem

HASH = "__holdfast_hash"
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
REPORT = pa.schema(
    [
        ("path", pa.string()),
        ("size_bytes", pa.int64()),
        ("rows", pa.int64()),
        ("hash", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """A parquet file that waits for its commit; its path is relative to the table."""

    path: str
    size_bytes: int
    rows: int

    def partition_values(self) -> dict[str, str | None]:
        """Read the values of the partition columns off the path."""
        pairs = [part.split("=", 1) for part in self.path.split("/") if "=" in part]
        return {
            unquote(name): None if value == NULL_PARTITION else unquote(value)
            for name, value in pairs
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """The whole output of an epoch."""

    files: tuple[StagedFile, ...]
    rows: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """Where the files of one epoch go."""

    table: str
    subfolder: str
    partition_by: tuple[str, ...]
    connect: Callable[[], S3Connection]


def run_epoch(df: DataFrame, staging: Staging | None) -> Staged:
    """Execute the plan once; without `staging` rows are digested only, for a replayed epoch."""
    schema = to_arrow_schema(df.schema, timezone="UTC")
    hashed = df.withColumn(HASH, row_hash(df.schema))
    reports = hashed.mapInArrow(
        _Task(staging, schema), "path string, size_bytes bigint, rows bigint, hash bigint"
    ).collect()
    return Staged(
        files=tuple(
            StagedFile(path=row.path, size_bytes=row.size_bytes, rows=row.rows)
            for row in reports
            if row.path is not None
        ),
        rows=sum(row.rows for row in reports if row.path is None),
        digest=f"{sum(row.hash for row in reports) % 2**64:016x}",
    )


def row_hash(schema: StructType) -> Column:
    """Hash all columns of a row; Spark cannot hash maps, so those go through JSON."""
    return sf.xxhash64(*(_hashable(field) for field in schema.fields))


def _hashable(field: StructField) -> Column:
    column = sf.col(f"`{field.name}`")
    return sf.to_json(column) if _has_map(field.dataType) else column


def _has_map(kind: DataType) -> bool:
    match kind:
        case MapType():
            return True
        case ArrayType():
            return _has_map(kind.elementType)
        case StructType():
            return any(_has_map(field.dataType) for field in kind.fields)
        case _:
            return False


@dataclass(frozen=True)
class _Task:
    """What each Spark task does: one row of report a file, and one with rows and hash in all."""

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

    def _write(
        self, staging: Staging, batches: Iterator[pa.RecordBatch]
    ) -> list[dict[str, str | int]]:
        files, root = filesystem(staging.table, staging.connect)
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
    """Counts and hashes the rows that pass, and takes the hash column off them."""

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
