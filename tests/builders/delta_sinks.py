"""Delta sinks on a real table and a real control store, without Spark."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql.types import LongType, StructField, StructType

from holdfast.configs.declarations.deployment import EmbeddedObjectStore
from holdfast.configs.declarations.sinks import DeltaSink as DeltaDeclaration
from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.resources.control_store.store import ControlStore
from holdfast.streaming.sinks.delta.sink import DeltaSink
from holdfast.streaming.sinks.ledger_writer import LedgerWriter
from holdfast.streaming.sinks.sender import Sender
from holdfast.streaming.sinks.staging import Staged, StagedFile
from holdfast.streaming.spec import ReplicaSpec
from tests.fakes.leases import FixedToken
from tests.live.spark_queries import RATE

NAME = "words"
SCHEMA = StructType([StructField("n", LongType())])


@dataclass
class Rows:
    """The output of an epoch, where Spark would have a DataFrame."""

    numbers: list[int]
    schema: StructType = SCHEMA


class PlainDeltaSink(DeltaSink):
    """Stages without Spark; `answers` are the errors that the store gives after a commit."""

    answers: list[Exception]

    def stage(self, df: Any, epoch: int, *, write: bool) -> Staged:
        staged = Staged(files=(), rows=len(df.numbers), digest=f"{sum(df.numbers):016x}")
        if not write or not df.numbers:
            return staged
        folder = f"data/{epoch:012d}-{self.spec.replica}"
        path = Path(self.spec.table) / folder / "part-0.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(pa.table({"n": df.numbers}), path)
        file = StagedFile(
            path=f"{folder}/part-0.parquet", size_bytes=path.stat().st_size, rows=len(df.numbers)
        )
        return Staged(files=(file,), rows=staged.rows, digest=staged.digest, folder=folder)

    def _write(self, table: DeltaTable, staged: Staged, epoch: int) -> None:
        super()._write(table, staged, epoch)
        if self.answers:
            raise self.answers.pop()


@dataclass
class SinkSetup:
    """A table and a control store."""

    folder: Path
    store: ControlStore

    def sink(self, replica: str, *answers: Exception, history: int = 0) -> PlainDeltaSink:
        spec = ReplicaSpec(
            replica=replica,
            stream=StreamDeclaration.model_validate(
                {"name": NAME, "app": "a.b:c", "source": RATE, "objective": {"recovery_time": 30}}
            ),
            history=history,
            control_url=self.store.url,
            home=self.folder,
            folder=self.folder / replica,
            table=str(self.folder / "table"),
            object_store=EmbeddedObjectStore(),
        )
        ledger = LedgerWriter(self.store, NAME, replica, FixedToken(), history)
        sink = PlainDeltaSink(spec, DeltaDeclaration(), ledger)
        sink.answers = list(answers)
        return sink

    def sender(
        self, replica: str, *answers: Exception, sending: bool = True, history: int = 0
    ) -> Sender:
        sink = self.sink(replica, *answers, history=history)
        return Sender(sink, sink.ledger, sending=sending)

    def folders(self) -> list[str]:
        return sorted(path.name[11:] for path in (self.folder / "table/data").iterdir())

    def output(self) -> list[int]:
        return sorted(DeltaTable(str(self.folder / "table")).to_pandas()["n"])
