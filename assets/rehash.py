"""Hashes the rows of a stream's table again, with Spark, and compares them with the ledger.

The ledger keeps the digest of every epoch's rows, and the sink keeps each epoch's files in a folder
of its own: so rows that were changed or damaged after the commit are detected, epoch by epoch. Files that were
merged keep the digest of all their rows.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dagster_pyspark import LazyPySparkResource
from deltalake import DeltaTable
from pyarrow.fs import LocalFileSystem
from pyspark.sql import DataFrame, SparkSession, functions as sf
from pyspark.sql.types import StructType

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.table_epochs import EpochRange
from holdfast.observation.tables import open_table
from holdfast.resources.project import Project
from holdfast.streaming.sinks.delta.files import (
    TableFolder,
    live_files,
    merged_ranges,
    read_footer,
)
from holdfast.streaming.sinks.delta.lineage import epoch_of, merged_epochs
from holdfast.streaming.sinks.staging import digest_of, row_hash

SPARK_CONF = {
    "spark.master": "local[1]",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RehashResult:
    """The epochs that were hashed again, and those of them whose digest differs from the ledger's."""

    epochs: list[int]
    differing: list[int]


@contextmanager
def open_spark() -> Iterator[SparkSession]:
    """Open a Spark session for one `with` block; a session that was active before is left running."""
    before = SparkSession.getActiveSession()
    session: SparkSession = LazyPySparkResource(spark_config=SPARK_CONF).spark_session
    try:
        yield session
    finally:
        if before is None:
            session.stop()


def rehash(project: Project, stream: str, spark: SparkSession, *, newest: int) -> RehashResult:
    """Hash the newest epochs that have rows, and compare them with the ledger."""
    path = Path(_local(project, stream))
    table = open_table(project, stream)
    last = project.store.ledger.last(stream)
    if table is None or last is None:
        return RehashResult(epochs=[], differing=[])
    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    entries = project.store.ledger.between(stream, max(0, last.epoch - newest + 1), last.epoch)
    folders = _folders(table)
    hashed = [entry for entry in entries if entry.rows and entry.epoch in folders]
    digests = {entry.epoch: _digest(spark, path / folders[entry.epoch], schema) for entry in hashed}
    differing = [e.epoch for e in hashed if digests[e.epoch] != (e.rows, e.digest)]
    for epochs in merged_ranges(live_files(table)):
        inside = [entry.epoch for entry in entries if entry.rows and entry.epoch in epochs]
        if inside:
            digests |= dict.fromkeys(inside, (0, ""))
            differing += [] if _is_whole(spark, path, table, epochs, schema) else inside
    return RehashResult(epochs=sorted(digests), differing=sorted(differing))


def _is_whole(
    spark: SparkSession, path: Path, table: DeltaTable, epochs: EpochRange, schema: StructType
) -> bool:
    """Whether a merged range has the rows that were merged; one whose digest is not known is only counted."""
    files = [file for file in live_files(table) if merged_epochs(file.path) == epochs]
    folder = path / "/".join(files[0].path.split("/")[:2])
    expected = read_footer(TableFolder(LocalFileSystem(), str(path)), files[0].path).digest
    rows, digest = _digest(spark, folder, schema)
    return rows == sum(file.rows for file in files) and expected in ("", digest)


def _local(project: Project, stream: str) -> str:
    path = project.config.table_path(stream)
    if "://" in path:
        raise PermanentError(
            f"the table {path} cannot be hashed again: Spark needs more jars to read it",
            hint="hash only tables in local folders",
        )
    return path


def _folders(table: DeltaTable) -> dict[int, str]:
    """The folder of each epoch whose files were not merged, in the table."""
    return {
        epoch: "/".join(file.path.split("/")[:2])
        for file in live_files(table)
        if (epoch := epoch_of(file.path)) is not None
    }


def _digest(spark: SparkSession, folder: Path, schema: StructType) -> tuple[int, str]:
    rows: DataFrame = spark.read.parquet(str(folder))
    typed = rows.select(*(sf.col(f"`{f.name}`").cast(f.dataType) for f in schema.fields))
    wide = row_hash(schema).cast("decimal(38, 0)")
    count, total = typed.agg(sf.count("*"), sf.sum(wide)).collect()[0]
    return int(count), digest_of(int(total or 0))
