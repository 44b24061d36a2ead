"""Real checkpoints restored beside an earlier restore: a query goes on in either, and neither sees it."""

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from holdfast.configs.declarations.sources import FilesSource as FilesDeclaration
from holdfast.resources.object_store.s3 import S3ObjectStore
from holdfast.resources.vault.checkpoint import files as checkpoint_files
from holdfast.resources.vault.objects.manifest import Manifest
from holdfast.resources.vault.records import Restored, Shipped
from holdfast.resources.vault.restore import LinkSource
from holdfast.resources.vault.vault import SnapshotVault
from holdfast.streaming.sources.factory import arrow_columns

pytestmark = pytest.mark.integration

STATE = "org.apache.spark.sql.execution.streaming.state."
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
STORES = {
    "hdfs": {PROVIDER: STATE + "HDFSBackedStateStoreProvider"},
    "rocksdb": {PROVIDER: STATE + "RocksDBStateStoreProvider", CHANGELOG: "false"},
    "changelog": {PROVIDER: STATE + "RocksDBStateStoreProvider", CHANGELOG: "true"},
}
OFTEN = {
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
    "spark.sql.streaming.stateStore.maintenanceInterval": "1s",
    "spark.sql.streaming.minBatchesToRetain": "2",
}


@dataclass
class Words:
    """A folder of input, one file an epoch, and a running count of it whose batches are kept."""

    spark: SparkSession
    home: Path
    batches: dict[Path, dict[int, list[tuple[object, ...]]]] = field(default_factory=dict)
    epochs: int = 0
    keys: int = 12

    def add(self, epochs: int = 1) -> None:
        folder = self.home / "in"
        folder.mkdir(exist_ok=True)
        for _ in range(epochs):
            hidden = folder / f".{self.epochs:04d}"
            hidden.write_text("\n".join(f'{{"k": {k}}}' for k in range(self.epochs % 3, self.keys)))
            os.utime(
                hidden, (1_000_000_000 + self.epochs,) * 2
            )  # Spark takes the oldest file first
            hidden.rename(folder / f"{self.epochs:04d}.json")
            self.epochs += 1

    def start(self, checkpoint: Path) -> StreamingQuery:
        (self.home / "in").mkdir(exist_ok=True)
        kept = self.batches.setdefault(checkpoint, {})

        def keep(frame: DataFrame, batch: int) -> None:
            kept[batch] = sorted(tuple(row) for row in frame.collect())

        reader = self.spark.readStream.schema("k long").option("maxFilesPerTrigger", 1)
        counted = reader.json(str(self.home / "in")).groupBy("k").count()
        writer = counted.writeStream.foreachBatch(keep).outputMode("complete")
        return writer.option("checkpointLocation", str(checkpoint)).start()

    def go_on(self, checkpoint: Path) -> dict[int, list[tuple[object, ...]]]:
        """Process what waits, from this checkpoint on; what each new batch gave."""
        query = self.start(checkpoint)
        query.processAllAvailable()
        query.stop()
        return self.batches[checkpoint]


@pytest.fixture
def words(spark: SparkSession, tmp_path: Path) -> Iterator[Words]:
    yield Words(spark, tmp_path)
    for query in spark.streams.active:
        query.stop()


@pytest.fixture
def configured(spark: SparkSession) -> Iterator[Callable[[str], None]]:
    def configure(kind: str) -> None:
        for name, value in (STORES[kind] | OFTEN).items():
            spark.conf.set(name, value)

    yield configure
    for name in STORES["rocksdb"] | OFTEN:
        spark.conf.unset(name)


@dataclass
class TwoRestored:
    """Two snapshots of one query, the newer restored beside the older, and once without it."""

    old: LinkSource
    new: LinkSource
    beside: Restored
    alone: Restored


def ship(words: Words, vault: SnapshotVault, parent: Manifest | None) -> Shipped:
    """What the query in the folder `first` has come to."""
    return vault.ship(
        words.home / "first",
        words.epochs - 1,
        token=1,
        replica="r1",
        parent=parent,
        conf={},
        created_at=0.0,
        scratch=words.home / "scratch",
    )


def two_restored(words: Words, vault: SnapshotVault) -> TwoRestored:
    home, first = words.home, words.home / "first"
    manifests: list[Manifest] = []
    query = words.start(first)
    for _ in range(6):
        words.add()
        query.processAllAvailable()
        shipped = ship(words, vault, manifests[-1] if manifests else None)
        manifests.append(shipped.manifest)
    words.add(3)
    query.processAllAvailable()
    query.stop()
    old, new = LinkSource(home / "old", manifests[3]), LinkSource(home / "new", manifests[5])
    vault.restore(old.manifest, old.folder)
    beside = vault.restore(new.manifest, new.folder, base=old)
    return TwoRestored(old, new, beside, alone=vault.restore(new.manifest, home / "alone"))


def altered(base: LinkSource) -> list[str]:
    """The files of a folder that are there and are not what its manifest says."""
    return [
        file.path
        for file in base.manifest.files
        if (path := base.folder / file.path).is_file()
        and hashlib.sha256(path.read_bytes()).digest() != file.sha256
    ]


def present(base: LinkSource) -> set[str]:
    return {file.path for file in base.manifest.files if (base.folder / file.path).is_file()}


@pytest.mark.parametrize("kind", list(STORES))
@pytest.mark.parametrize("newer_first", [True, False])
def test_a_query_goes_on_in_either_folder_and_leaves_the_other_as_it_was(
    *,
    kind: str,
    newer_first: bool,
    words: Words,
    s3_store: S3ObjectStore,
    configured: Callable[[str], None],
) -> None:
    configured(kind)
    two = two_restored(words, SnapshotVault(s3_store, f"{words.home.name}-{kind}"))
    # Not by much: of a small state the files are near each other, and what lies between is read along.
    assert two.beside.fetched_bytes <= two.alone.fetched_bytes
    assert any(
        (two.old.folder / file.path).is_file()
        and (two.old.folder / file.path).samefile(two.new.folder / file.path)
        for file in two.new.manifest.files
    )
    truth = words.batches[words.home / "first"]
    first, second = (two.new, two.old) if newer_first else (two.old, two.new)
    whole = present(second)
    for base in (first, second):
        gave = words.go_on(base.folder)
        assert gave == {n: truth[n] for n in range(base.manifest.epoch + 1, 9)}
        assert altered(first) == altered(second) == []
        if base is first:
            assert present(second) == whole


def wholes(paths: Iterable[str]) -> dict[str, int]:
    """The newest whole of each store among these files."""
    sizes: dict[str, int] = {}
    for path in paths:
        if path.endswith(".snapshot"):
            store, version = path.rsplit("/", 1)
            sizes[store] = max(sizes.get(store, 0), int(version.removesuffix(".snapshot")))
    return sizes


def test_a_large_state_that_changes_little_is_shipped_once_and_goes_on(
    words: Words,
    s3_store: S3ObjectStore,
    configured: Callable[[str], None],
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Though Spark writes all of it again and again."""
    configured("hdfs")
    monkeypatch.setattr(checkpoint_files, "LEAST_WHOLE_BYTES", 0)
    spark.conf.set("spark.sql.streaming.minBatchesToRetain", "100")
    vault, first = SnapshotVault(s3_store, words.home.name), words.home / "first"
    words.keys = 20_000
    words.add()
    words.keys = 12
    query = words.start(first)
    deadline = time.monotonic() + 120

    def run_until_spark_has_written_all_after(epoch: int) -> dict[str, int]:
        """The newest wholes of all stores."""
        while True:
            assert time.monotonic() < deadline, "Spark writes its state again each second"
            words.add()
            query.processAllAvailable()
            files = (str(file.relative_to(first)) for file in first.rglob("*.snapshot"))
            newest = {store: n for store, n in wholes(files).items() if n > epoch}
            if len(newest) == len(list((first / "state" / "0").glob("[0-9]*"))):
                return newest

    run_until_spark_has_written_all_after(0)
    before = ship(words, vault, None).manifest
    newest = run_until_spark_has_written_all_after(words.epochs)
    shipped = ship(words, vault, before)
    query.stop()
    assert wholes(shipped.manifest.paths) == wholes(before.paths) != newest
    assert shipped.new_bytes < before.state_bytes / 4
    truth, restored = words.batches[first], words.home / "restored"
    old = LinkSource(words.home / "old", before)
    whole = vault.restore(before, old.folder)
    beside = vault.restore(shipped.manifest, restored, base=old)
    assert beside.fetched_bytes < whole.fetched_bytes / 4
    words.add(2)
    gave = words.go_on(restored)
    assert gave == {n: rows for n, rows in words.go_on(first).items() if n > shipped.manifest.epoch}
    assert len(gave) == 2
    assert max(truth) == words.epochs - 1


def test_a_declared_list_of_columns_has_the_arrow_schema_that_spark_gives_it(
    spark: SparkSession,
) -> None:
    text = "id bigint, at timestamp, tags array<string>, price decimal(10,2)"
    declared = FilesDeclaration.model_validate(
        {"kind": "files", "path": "in", "format": "parquet", "schema": text}
    )
    schema = arrow_columns(declared)
    assert schema.names == ["id", "at", "tags", "price"]
    assert schema.field("at").type == pa.timestamp("us", tz="UTC")
    assert schema.field("price").type == pa.decimal128(10, 2)
