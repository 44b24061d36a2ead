"""Real queries, shipped while they run, go on from a restored checkpoint as if nothing had happened."""

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession, functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from holdfast.resources.object_store.s3 import S3ObjectStore
from holdfast.resources.vault.objects.manifest import Manifest
from holdfast.resources.vault.vault import SnapshotVault

pytestmark = pytest.mark.integration

STATE = "org.apache.spark.sql.execution.streaming.state."
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
STORES = {
    "hdfs": {PROVIDER: STATE + "HDFSBackedStateStoreProvider"},
    "rocksdb": {PROVIDER: STATE + "RocksDBStateStoreProvider", CHANGELOG: "false"},
    "changelog": {PROVIDER: STATE + "RocksDBStateStoreProvider", CHANGELOG: "true"},
}
SNAPSHOTS = {"spark.sql.streaming.stateStore.minDeltasForSnapshot": "2"}


@dataclass
class Input:
    """A folder of JSON files, one an epoch, and what was written into it."""

    folder: Path
    rows: list[tuple[int, int]] = field(default_factory=list)

    def add(self, epoch: int) -> None:
        new = [(key, epoch) for key in range(epoch % 3, 12)]
        self.rows += new
        lines = [json.dumps({"k": k, "ts": f"2024-01-01T00:{e:02d}:00Z"}) for k, e in new]
        hidden = self.folder / f".{epoch:04d}"
        hidden.write_text("\n".join(lines))
        os.utime(hidden, (1_000_000_000 + epoch,) * 2)  # Spark takes the oldest file first
        hidden.rename(self.folder / f"{epoch:04d}.json")

    def read(self, spark: SparkSession) -> DataFrame:
        self.folder.mkdir(exist_ok=True)
        schema = "k long, ts timestamp"
        return (
            spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(self.folder))
        )


@dataclass
class Recorder:
    """A sink that keeps the rows of each batch."""

    batches: dict[int, list[tuple[object, ...]]] = field(default_factory=dict)

    def __call__(self, frame: DataFrame, batch: int) -> None:
        self.batches[batch] = sorted(tuple(row) for row in frame.collect())

    def all_rows(self) -> list[tuple[object, ...]]:
        return [row for batch in sorted(self.batches) for row in self.batches[batch]]


@pytest.fixture
def configured(spark: SparkSession) -> Iterator[Callable[[dict[str, str]], None]]:
    touched: set[str] = set()

    def configure(conf: dict[str, str]) -> None:
        for name, value in (conf | SNAPSHOTS).items():
            touched.add(name)
            spark.conf.set(name, value)

    yield configure
    for query in spark.streams.active:
        query.stop()
    for name in touched:
        spark.conf.unset(name)


def start(frame: DataFrame, sink: Recorder, checkpoint: Path, mode: str) -> StreamingQuery:
    writer = frame.writeStream.foreachBatch(sink).outputMode(mode)
    return writer.option("checkpointLocation", str(checkpoint)).start()


def ship(
    vault: SnapshotVault, checkpoint: Path, epoch: int, parent: Manifest | None, scratch: Path
) -> Manifest:
    shipped = vault.ship(
        checkpoint,
        epoch,
        token=1,
        replica="r1",
        parent=parent,
        conf={},
        created_at=0.0,
        scratch=scratch,
    )
    assert shipped.requests == 2
    return shipped.manifest


def run_ship_lose_and_go_on(
    build: Callable[[DataFrame], DataFrame],
    mode: str,
    spark: SparkSession,
    store: S3ObjectStore,
    home: Path,
) -> tuple[Input, Recorder]:
    """Ship every epoch of a running query, lose its folder, go on from epoch 4 elsewhere."""
    source, before, after = Input(home / "in"), Recorder(), Recorder()
    vault = SnapshotVault(store, home.name)
    parent: Manifest | None = None
    query = start(build(source.read(spark)), before, home / "first", mode)
    for epoch in range(7):
        source.add(epoch)
        query.processAllAvailable()
        parent = ship(vault, home / "first", epoch, parent, home / "scratch")
    query.stop()
    shutil.rmtree(home / "first")
    older = vault.manifest(next(snapshot.id for snapshot in vault.list() if snapshot.epoch == 4))
    vault.restore(older, home / "second")
    source.add(7)
    query = start(build(source.read(spark)), after, home / "second", mode)
    query.processAllAvailable()
    ship(vault, home / "second", 7, older, home / "scratch")
    query.stop()
    assert min(after.batches) == 5
    assert {n: after.batches[n] for n in (5, 6)} == {n: before.batches[n] for n in (5, 6)}
    after.batches |= {n: before.batches[n] for n in range(5)}
    return source, after


def counted(frame: DataFrame) -> DataFrame:
    return frame.groupBy("k").count()


@pytest.mark.parametrize("kind", list(STORES))
def test_an_aggregation_goes_on_with_every_kind_of_state(
    kind: str,
    spark: SparkSession,
    s3_store: S3ObjectStore,
    tmp_path: Path,
    configured: Callable[[dict[str, str]], None],
) -> None:
    configured(STORES[kind])
    source, sink = run_ship_lose_and_go_on(counted, "complete", spark, s3_store, tmp_path)
    assert sink.batches[7] == sorted(Counter(key for key, _ in source.rows).items())


@pytest.mark.parametrize("kind", list(STORES))
def test_a_join_goes_on_with_all_its_stores(
    kind: str,
    spark: SparkSession,
    s3_store: S3ObjectStore,
    tmp_path: Path,
    configured: Callable[[dict[str, str]], None],
) -> None:
    def joined(frame: DataFrame) -> DataFrame:
        left = frame.where("k % 2 = 0").withWatermark("ts", "10 minutes")
        right = frame.selectExpr("k - 1 as k2", "ts as ts2").withWatermark("ts2", "10 minutes")
        near = sf.expr("k = k2 and ts2 between ts - interval 2 minutes and ts")
        return left.join(right, near).select("k", sf.minute("ts"), sf.minute("ts2"))

    configured(STORES[kind])
    source, sink = run_ship_lose_and_go_on(joined, "append", spark, s3_store, tmp_path)
    expected = [
        (k, e, e2)
        for k, e in source.rows
        for k2, e2 in source.rows
        if k % 2 == 0 and k2 - 1 == k and e - 2 <= e2 <= e
    ]
    assert sorted(sink.all_rows()) == sorted(expected)


def test_a_deduplication_goes_on(
    spark: SparkSession,
    s3_store: S3ObjectStore,
    tmp_path: Path,
    configured: Callable[[dict[str, str]], None],
) -> None:
    def distinct(frame: DataFrame) -> DataFrame:
        return frame.dropDuplicates(["k"]).select("k")

    configured(STORES["rocksdb"])
    source, sink = run_ship_lose_and_go_on(distinct, "append", spark, s3_store, tmp_path)
    assert sorted(sink.all_rows()) == sorted({(key,) for key, _ in source.rows})


def test_a_stateful_processor_goes_on_although_spark_noted_the_old_folder(
    spark: SparkSession,
    s3_store: S3ObjectStore,
    tmp_path: Path,
    configured: Callable[[dict[str, str]], None],
) -> None:
    configured(STORES["rocksdb"])

    def processed(frame: DataFrame) -> DataFrame:
        return frame.groupBy("k").transformWithStateInPandas(
            _counting_processor(), "k long, n long", "Update", "None"
        )

    source, sink = run_ship_lose_and_go_on(processed, "update", spark, s3_store, tmp_path)
    latest = {row[0]: row[1] for row in sink.all_rows()}
    assert latest == Counter(key for key, _ in source.rows)


def _counting_processor() -> StatefulProcessor:
    """Made here, so that Spark's workers get it by value: they cannot import the tests."""

    class Counting(StatefulProcessor):
        def init(self, handle):  # type: ignore[no-untyped-def]
            self.count = handle.getValueState("count", "n long")

        def handleInputRows(self, key, rows, timer_values):  # type: ignore[no-untyped-def]  # noqa: N802
            count = self.count.get()[0] if self.count.exists() else 0
            total = count + sum(len(frame) for frame in rows)
            self.count.update((total,))
            yield pd.DataFrame({"k": [key[0]], "n": [total]})

        def close(self) -> None:
            pass

    return Counting()
