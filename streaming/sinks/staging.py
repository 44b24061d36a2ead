"""Running an epoch's plan once: Spark tasks write its rows as parquet files and digest them.

The digest is the sum of the rows' hashes modulo 2^64, so neither the order of rows nor their
division into tasks matters: two replicas that computed the same rows have the same digest.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, functions as sf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from holdfast.streaming.sinks.delta.table import partition_values
from holdfast.streaming.sinks.staging_task import COLUMNS, HASH, Staging, StagingTask


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """A parquet file that waits for its commit; its path is relative to the table."""

    path: str
    size_bytes: int
    rows: int

    def partition_values(self) -> dict[str, str | None]:
        """Read the values of the partition columns off the path."""
        return partition_values(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """The whole output of an epoch, and where it waits: in a folder or as a frame."""

    files: tuple[StagedFile, ...]
    rows: int
    digest: str
    folder: str = ""
    frame: DataFrame | None = None
    read: str | None = None
    """The digest of the input that it was computed from; `None` if the checkpoint is of an older version."""


def run_epoch(df: DataFrame, staging: Staging | None) -> Staged:
    """Execute the plan once; without `staging` rows are digested only, for a replayed epoch."""
    schema = to_arrow_schema(df.schema, timezone="UTC")
    hashed = df.withColumn(HASH, row_hash(df.schema))
    reports = hashed.mapInArrow(StagingTask(staging, schema), COLUMNS).collect()
    return Staged(
        files=tuple(
            StagedFile(path=row.path, size_bytes=row.size_bytes, rows=row.rows)
            for row in reports
            if row.path is not None
        ),
        rows=sum(row.rows for row in reports if row.path is None),
        digest=digest_of(sum(row.hash for row in reports)),
        folder="" if staging is None else staging.subfolder,
    )


def digest_of(hashes: int) -> str:
    """The digest of rows whose hashes have this sum."""
    return f"{hashes % 2**64:016x}"


def row_hash(schema: StructType) -> Column:
    """Hash all columns of a row, and which of them are null: Spark's hash skips nulls.

    Spark cannot hash maps, so those go through JSON.
    """
    columns = [_hashable(field) for field in schema.fields]
    return sf.xxhash64(*columns, sf.array(*(column.isNull() for column in columns)))


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
