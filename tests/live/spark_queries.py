"""Running a replica's query in the tests' own Spark session, without process or playbook."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from holdfast.configs.declarations.deployment import EmbeddedObjectStore, ObjectStore
from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.resources.control_store.records import LedgerEntry
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.object_store.resolve import delta_options
from holdfast.streaming.gate import Gate, GateState
from holdfast.streaming.query.query import open_sender, start_query
from holdfast.streaming.sinks.ledger_writer import LedgerWriter
from holdfast.streaming.sinks.sender import Sender
from holdfast.streaming.spark.epoch_source import EpochSource
from holdfast.streaming.spec import ReplicaSpec
from tests.fakes.leases import FixedToken
from tests.waiting import wait_until

NAME = "words"
EMBEDDED = EmbeddedObjectStore()
RATE = {
    "kind": "rate",
    "seed": 5,
    "keys": 10,
    "partitions": 2,
    "profile": {"kind": "constant", "rows_per_second": 1_000_000},
    "start": "2026-01-01T00:00:00Z",
    "limit_rows": 2000,
}


@dataclass
class QueryProject:
    """A home folder with a control store, in which replicas of one stream run."""

    home: Path
    store: ControlStore
    spark: SparkSession

    def spec(
        self,
        replica: str,
        table: str = "",
        object_store: ObjectStore = EMBEDDED,
        **declared: Any,
    ) -> ReplicaSpec:
        folder = self.home / "replicas" / replica
        folder.mkdir(parents=True)
        stream = {
            "name": NAME,
            "app": "tests.live.apps:unchanged",
            "source": RATE,
            "epoch": {"rows": 500, "seconds": 0.2, "silence": 0.2},
            "objective": {"recovery_time": 30},
            "tier": "passive_replication",
            **declared,
        }
        spec = ReplicaSpec(
            replica=replica,
            stream=StreamDeclaration.model_validate(stream),
            control_url=self.store.url,
            home=self.home,
            folder=folder,
            table=table or str(self.home / "table"),
            object_store=object_store,
        )
        spec.save()
        return spec

    @contextmanager
    def running(
        self, spec: ReplicaSpec, sender: Sender | None = None, *, token: int = 1
    ) -> Iterator[StreamingQuery]:
        self.spark.dataSource.register(EpochSource)
        Gate(spec.folder).set(GateState(open=True, token=token))
        ledger = LedgerWriter(self.store, NAME, spec.replica, FixedToken(token))
        sender = sender or open_sender(spec, ledger, sending=True)
        query = start_query(self.spark, spec, sender, checkpoint_of(spec))
        try:
            yield query
        finally:
            query.stop()

    def run(
        self,
        spec: ReplicaSpec,
        through_epoch: int,
        sender: Sender | None = None,
        *,
        token: int = 1,
    ) -> None:
        """Let a replica work until it has finished an epoch."""
        with self.running(spec, sender, token=token) as query:
            self.await_commit(query, spec, through_epoch)

    def await_commit(self, query: StreamingQuery, spec: ReplicaSpec, epoch: int) -> None:
        def has_committed() -> bool:
            if (failure := query.exception()) is not None:
                raise failure
            return (checkpoint_of(spec) / "commits" / str(epoch)).exists()

        wait_until(
            has_committed,
            within_seconds=60,
            every_seconds=0.05,
            story=lambda: f"epoch {epoch} was not finished",
        )

    def ledger(self) -> list[LedgerEntry]:
        return self.store.ledger.between(NAME, 0, 1000)

    def output(self, spec: ReplicaSpec) -> pd.DataFrame:
        return self.table(spec).to_pandas()

    def table(self, spec: ReplicaSpec) -> DeltaTable:
        return DeltaTable(spec.table, storage_options=delta_options(spec.table, spec.connect))


def checkpoint_of(spec: ReplicaSpec) -> Path:
    """The one checkpoint that a replica has in these tests."""
    return spec.checkpoints / "one"
