"""Delta tables as the sink leaves them, written without Spark."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.transaction import AddAction

from holdfast.resources.object_store.resolve import connector
from holdfast.resources.project import Project
from holdfast.streaming.sinks.output import StreamOutput

SCHEMA = pa.schema([("word", pa.string()), ("count", pa.int64())])


def a_table(path: str) -> DeltaTable:
    """A table without rows."""
    return DeltaTable.create(path, schema=Schema.from_arrow(SCHEMA))


def own_tables(project: Project, stream: str = "clicks") -> None:
    """Record the tables that are there as the stream's, as a replica does that opens them."""
    config = project.config
    connect = connector(config.deployment.object_store, config.home)
    output, letters = config.table_path(stream), config.dead_letters_path(stream)
    StreamOutput(project.store, stream, output, connect).find()
    if letters is not None:
        StreamOutput.of_dead_letters(project.store, stream, letters, connect).find()


def a_commit(
    path: str,
    epoch: int,
    rows: pa.Table,
    *,
    stream: str = "clicks",
    digest: str | None = None,
    app: str | None = None,
) -> None:
    """One epoch; another `app` lets an epoch in twice, which the sink's own never does."""
    name = f"data/{epoch:012d}-{app or 'r1'}/part-0.parquet"
    file = Path(path) / name
    file.parent.mkdir(parents=True)
    pq.write_table(rows, file)
    table = DeltaTable(path)
    table.create_write_transaction(
        [
            AddAction(
                path=name,
                size=file.stat().st_size,
                partition_values={},
                modification_time=0,
                data_change=True,
                stats=json.dumps({"numRecords": rows.num_rows}),
            )
        ],
        "append",
        table.schema(),
        commit_properties=CommitProperties(
            app_transactions=[Transaction(app or f"holdfast/{stream}", epoch)],
            custom_metadata={
                "holdfast.stream": stream,
                "holdfast.epoch": str(epoch),
                "holdfast.digest": f"d{epoch}" if digest is None else digest,
            },
        ),
    )


def words(count: int, *, first: int = 1) -> pa.Table:
    """Rows of the word count."""
    numbers = list(range(first, first + count))
    return pa.table({"word": ["anchor"] * count, "count": numbers}, schema=SCHEMA)
