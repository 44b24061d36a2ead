"""Stateful queries that Spark's own operators cannot express, as a fold over pandas frames.

The rows of an epoch are divided by their key into buckets, and each bucket is folded by one call of a
function: rows in their order, and what the bucket has kept so far; out come rows for the output, and what
is kept from now on. So a function works on columns, not on single rows, and a bucket costs Spark one read
and one write of state an epoch, however many keys it has.

The result is the same in every replica: which bucket a row is in depends on its key only, and rows come in
the order that is asked for. Ask for columns that tell any two different rows apart. State expires if the
function does not keep it: keep what a later row may need, and nothing else.

It needs RocksDB: `spark.sql.streaming.stateStore.providerClass` must be `ROCKSDB`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, functions as sf
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StructField, StructType

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
BUCKET = "__bucket"

Fold: TypeAlias = Callable[[pd.DataFrame, pd.DataFrame | None], tuple[pd.DataFrame, pd.DataFrame]]
"""`(rows, kept) -> (output, kept)`; what is kept is `None` the first time."""


def fold_by_key(
    df: DataFrame,
    fold: Fold,
    *,
    key: Sequence[str],
    order: Sequence[str],
    into: str,
    buckets: int = 4,
) -> DataFrame:
    """Fold the rows of each bucket, ordered by `order`; `into` are the columns of the output (DDL).

    Rows of one `key` are always in one bucket; without a key there is one bucket for all rows.
    """
    number = sf.pmod(sf.xxhash64(*key), sf.lit(buckets)) if key else sf.lit(0)
    return (
        df.withColumn(BUCKET, number.cast("int"))
        .groupBy(BUCKET)
        .transformWithStateInPandas(
            _FoldProcessor(fold, tuple(order)),
            outputStructType=into,
            outputMode="append",
            timeMode="None",
        )
    )


@dataclass
class _FoldProcessor(StatefulProcessor):
    """Spark calls it once for each bucket that has rows in an epoch."""

    fold: Fold
    order: tuple[str, ...]

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state: what was kept, as an Arrow table."""
        schema = StructType([StructField("kept", BinaryType())])
        self._state = handle.getValueState("kept", schema)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Fold the rows of a bucket in one call."""
        frame = pd.concat(list(rows), ignore_index=True).drop(columns=BUCKET, errors="ignore")
        ordered = frame.sort_values(list(self.order), kind="stable", ignore_index=True)
        state = self._state.get()
        output, kept = self.fold(ordered, None if state is None else _from_bytes(state[0]))
        self._state.update((_to_bytes(kept),))
        yield output

    def close(self) -> None:
        """Nothing to close."""


def _to_bytes(frame: pd.DataFrame) -> bytes:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    stored: bytes = sink.getvalue().to_pybytes()
    return stored


def _from_bytes(stored: bytes) -> pd.DataFrame:
    frame: pd.DataFrame = pa.ipc.open_stream(pa.py_buffer(stored)).read_pandas()
    return frame
