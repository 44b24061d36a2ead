"""A real stream of counted keys, run in the tests' own Spark, shipped twice, and copied to be damaged."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copytree, rmtree

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import SparkSession

import holdfast.resources.project
from holdfast.configs.declarations.deployment import Deployment
from holdfast.configs.declarations.sinks import DeltaSink
from holdfast.configs.project import ProjectConfig
from holdfast.ft_policies.tiers import PRIMARY
from holdfast.resources.control_store.records import EndedBy, ReplicaState, Slot
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.process import HOST, ProcessHandle
from holdfast.resources.vault.objects.manifest import Manifest
from holdfast.resources.vault.vault import SnapshotVault
from holdfast.streaming.spark.checkpoint import PROVIDER, last_committed
from holdfast.streaming.spec import ReplicaSpec
from tests.builders.control_rows import record_snapshot
from tests.fakes.clocks import SleeplessClock
from tests.live.spark_queries import NAME, QueryProject, checkpoint_of

FILES, ROWS = 7, 50
FIRST = "first"
STATE = "org.apache.spark.sql.execution.streaming.state."
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
HDFS = {PROVIDER: STATE + "HDFSBackedStateStoreProvider"}
ROCKSDB = {PROVIDER: STATE + "RocksDBStateStoreProvider", CHANGELOG: "false"}
CHANGELOGS = {**ROCKSDB, CHANGELOG: "true"}


@dataclass
class SparkStream:
    """A stopped stream, and the project that a user would have written for it."""

    runner: QueryProject
    conf: dict[str, str]
    first: ReplicaSpec
    shipped: list[int] = field(default_factory=list)
    last: int = -1
    copies: int = 0

    @property
    def project(self) -> holdfast.resources.project.Project:
        home, stream = self.runner.home, self.first.stream
        sink = DeltaSink(path=self.first.table)
        config = ProjectConfig(
            root=home,
            home=home,
            deployment=Deployment(),
            streams={NAME: stream.model_copy(update={"sink": sink})},
            prices={},
        )
        return holdfast.resources.project.Project(config, self.runner.store, clock=SleeplessClock())

    @property
    def vault(self) -> SnapshotVault:
        return self.project.vault(NAME)

    def run(self, spec: ReplicaSpec, through_epoch: int) -> None:
        spark = self.runner.spark
        for key, value in self.conf.items():
            spark.conf.set(key, value)
        try:
            self.runner.run(spec, through_epoch)
        finally:
            for key in self.conf:
                spark.conf.unset(key)

    def ship(self, checkpoint: Path, replica: str, parent: Manifest | None = None) -> Manifest:
        """Ship what a checkpoint has committed last."""
        epoch = last_committed(checkpoint)
        assert epoch is not None
        manifest = self.vault.ship(
            checkpoint,
            epoch,
            token=1,
            replica=replica,
            parent=parent,
            conf={},
            created_at=self.runner.store.now(),
            scratch=self.runner.home / "scratch",
        ).manifest
        record_snapshot(self.runner.store, self.vault, NAME, manifest.id)
        return manifest

    def one_more_file(self) -> None:
        """Input with every key, for an epoch after the last."""
        write_file(self.runner.home, FILES + 1)
        self.last += 2  # the next one may have been decided, empty, before this came

    @contextmanager
    def live_copy(self) -> Iterator[Path]:
        """A primary, as far as can be observed, on a copy of the checkpoint."""
        self.copies += 1
        replica, store = f"copy-{self.copies}", self.runner.store
        folder = self.runner.home / "replicas" / replica
        checkpoint = copytree(checkpoint_of(self.first), folder / "checkpoints" / "one")
        row = store.replicas.register(
            id=replica,
            stream=NAME,
            slot=Slot.PRIMARY,
            desired=PRIMARY,
            host=HOST,
            folder=str(folder),
        )
        assert row is not None, "another copy is live"
        this = ProcessHandle.this()
        store.replicas.record_process(replica, pid=this.pid, pid_started_at=this.started_at)
        try:
            yield Path(checkpoint)
        finally:
            store.replicas.end(
                replica, ReplicaState.STOPPED, "the test is over", by=EndedBy.REPLICA
            )
            rmtree(folder)

    def go_on(self) -> int | None:
        """What the next replica does; the epoch that it goes on from. Its output must be the same."""
        self.copies += 1
        spec = self.runner.spec(f"next-{self.copies}", **declared(self.runner.home))
        restored = self.vault.restore_newest(checkpoint_of(spec), durable=False)
        self.run(spec, self.last)
        audit = self.runner.store.ledger.audit(NAME)
        assert (audit.holes, audit.disagreements) == ([], [])
        assert self.runner.store.incidents.of(NAME) == []
        return None if restored is None else restored.manifest.epoch


def write_file(home: Path, number: int) -> None:
    """Some of seven keys, or all of them."""
    file = home / "input" / f"{number:03}.parquet"
    keys = [(number * row) % 7 for row in range(ROWS)]
    parquet.write_table(pa.table({"key": keys}), file)
    os.utime(file, (1_000_000 + number,) * 2)


def declared(home: Path) -> dict[str, object]:
    """Counted keys of small files, one an epoch."""
    return {
        "app": "tests.live.apps:counted",
        "output_mode": "update",
        "source": {
            "kind": "files",
            "path": str(home / "input"),
            "format": "parquet",
            "schema": "key bigint",
        },
        "epoch": {"rows": ROWS, "seconds": 0.2, "silence": 0.2},
    }


@contextmanager
def a_spark_stream(home: Path, spark: SparkSession, conf: dict[str, str]) -> Iterator[SparkStream]:
    """All files are counted; snapshots were shipped on the way."""
    (home / "input").mkdir()
    for number in range(FILES):
        write_file(home, number)
    with ControlStore.open(f"sqlite:///{home}/control.db") as store:
        runner = QueryProject(home, store, spark)
        stream = SparkStream(runner, conf, runner.spec(FIRST, **declared(home)))
        stream.project.ensure_object_store()
        try:
            parent = None
            for goal in (1, 4):
                stream.run(stream.first, goal)
                parent = stream.ship(checkpoint_of(stream.first), FIRST, parent)
                stream.shipped.append(parent.epoch)
            stream.run(stream.first, FILES + 1)  # what comes last is empty, so nothing is cut short
            stream.last = FILES + 1
            yield stream
        finally:
            embedded = stream.project.embedded_s3()
            if embedded is not None:
                embedded.stop()
