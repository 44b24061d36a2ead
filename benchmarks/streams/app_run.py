"""One query of an application run to the end of its input, in a Spark session of this process.

It is the data plane of a stream: epochs, dead letters, Delta table, ledger, checkpoint; without supervision
and snapshots. What comes out can be held against the application's oracle.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from holdfast.apps import reference_reader
from holdfast.apps.catalogue import Query
from holdfast.apps.generate import generate
from holdfast.apps.input_flaws import InputFlaws
from holdfast.apps.reference_reader import ReferenceFile
from holdfast.observation.proof import Proof, prove
from holdfast.observation.tables import open_table_at
from holdfast.orchestration.playbooks.launch import build_spec
from holdfast.resources.control_store.records import Slot
from holdfast.resources.project import Project, open_project
from holdfast.streaming.gate import Gate, GateState
from holdfast.streaming.query.query import open_sender, start_query
from holdfast.streaming.sinks.ledger_writer import LedgerWriter
from holdfast.streaming.sources.base import Json, Split
from holdfast.streaming.spark.checkpoint import PROVIDER
from holdfast.streaming.spark.epoch_source import EpochSource
from holdfast.streaming.spec import ReplicaSpec
from holdfast.streaming.workers import start_workers_with, worker_python
from tests.fakes.leases import FixedToken

HDFS_BACKED = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
DATA = "data"
PATIENCE_SECONDS = 300.0
LOOK_SECONDS = 0.05
_READ: dict[tuple[str, Path], ReferenceFile] = {}


@dataclass(frozen=True, slots=True)
class ReferenceSource:
    """A query's files as the oracles read them."""

    query: Query
    folder: Path

    def splits(self, taken: Json) -> Sequence[Split]:
        """One split a file."""
        return [Split(input=file) for file in taken["files"]]

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The rows that are input."""
        rows = read_reference_file(self.query, self.folder / split.input["name"]).rows
        yield from pa.Table.from_pandas(rows, preserve_index=False).to_batches()


@dataclass(frozen=True, slots=True)
class AppRun:
    """A project with one query, whose input is in `folder`."""

    query: Query
    folder: Path
    project: Project

    def replica(self, name: str) -> ReplicaSpec:
        """A new replica of its stream, with a folder of its own."""
        config, stream = self.project.config, self.query.stream
        folder = config.home / "replicas" / name
        folder.mkdir(parents=True)
        spec = build_spec(config, config.stream(stream), Slot.PRIMARY, name, folder)
        spec.save()
        return spec

    def start(self, spark: SparkSession, spec: ReplicaSpec) -> StreamingQuery:
        """Let a replica work; its checkpoint may have been restored before."""
        conf = spec.stream.resources.spark_conf
        spark.conf.set(PROVIDER, conf.get(PROVIDER, HDFS_BACKED))
        Gate(spec.folder).set(GateState(open=True, token=1))
        ledger = LedgerWriter(self.project.store, spec.stream.name, spec.replica, FixedToken())
        sender = open_sender(spec, ledger, sending=True)
        return start_query(spark, spec, sender, checkpoint_of(spec))

    @property
    def is_done(self) -> bool:
        """Whether all files are in epochs that are committed, and an empty epoch after them."""
        store, stream = self.project.store, self.query.stream
        entry = store.ledger.last(stream)
        last = None if entry is None else store.epochs.get(stream, entry.epoch)
        files = sum(1 for path in self.folder.iterdir() if not path.name.startswith("."))
        return last is not None and last.end["files"] == files and not last.input["files"]

    def finish(self, query: StreamingQuery) -> None:
        """Wait until everything is out, and stop the query."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        try:
            while not self.is_done:
                failure = query.exception()
                if failure is not None:
                    raise failure
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{self.query.stream} is not done: {query.lastProgress}")
                time.sleep(LOOK_SECONDS)
        finally:
            query.stop()

    def prove(self) -> Proof:
        """Hold the output against the oracle."""
        source = ReferenceSource(self.query, self.folder)
        return prove(self.project, self.query.stream, self.query.expected, source=source)

    def dead_letters(self) -> set[tuple[str, int]]:
        """File and line of all that was set aside."""
        path = self.project.config.dead_letters_path(self.query.stream)
        table = None if path is None else open_table_at(self.project, path)
        if table is None:
            return set()
        rows = table.to_pandas(columns=["file", "position"])
        assert not rows.duplicated().any(), "a dead letter is there twice"
        return set(rows.itertuples(index=False, name=None))

    def read_rejected_lines(self) -> set[tuple[str, int]]:
        """The same by the oracle."""
        files = [path for path in self.folder.iterdir() if not path.name.startswith(".")]
        return {
            (path.name, number)
            for path in files
            for number in read_reference_file(self.query, path).rejected
        }


def declare(query: Query, root: Path, folder: Path, *, epoch_rows: int) -> None:
    """A project in `root` with this query on the files in `folder`, cut into epochs of about so many rows."""
    source: Mapping[str, Any] = query.declaration["source"]
    declaration = {
        **query.declaration,
        "source": {**source, "path": str(folder), "settle": 0.1, "poll": 0.1},
        "epoch": {"rows": epoch_rows, "seconds": 0.3, "silence": 2},
        "tier": "passive_replication",
    }
    streams = root / "configs" / "streams"
    streams.mkdir(parents=True)
    (streams / f"{query.stream}.yaml").write_text(yaml.safe_dump(declaration))


@contextmanager
def generated_run(
    query: Query, root: Path, *, events: int, files: int, seed: int
) -> Iterator[AppRun]:
    """A query on flawed events, an epoch a file; all queries of an application share the files."""
    folder, per_file = root / DATA / query.app, events // files
    if not folder.exists():
        generate(query.app, folder, events=events, seed=seed, per_file=per_file, flaws=InputFlaws())
    declare(query, root / query.stream, folder, epoch_rows=per_file)
    with app_run(query, root / query.stream, folder) as run:
        yield run


@contextmanager
def app_run(query: Query, root: Path, folder: Path) -> Iterator[AppRun]:
    """The declared query in its project."""
    with open_project(root) as project:
        yield AppRun(query, folder, project)


def app_session(folder: Path, cores: int) -> SparkSession:
    """A session in which any number of queries run, with Python workers as a replica's."""
    start_workers_with(worker_python(folder))
    spark = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.driver.memory", "2g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", str(cores))
        .config("spark.sql.streaming.noDataMicroBatches.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(EpochSource)
    return spark


def read_reference_file(query: Query, path: Path) -> ReferenceFile:
    """A file by the oracles' own reader; all queries of an application have the same input."""
    if (query.app, path) not in _READ:
        _READ[query.app, path] = reference_reader.read_file(query, path)
    return _READ[query.app, path]


def checkpoint_of(spec: ReplicaSpec) -> Path:
    """The one checkpoint that a replica has here."""
    return spec.folder / "checkpoint"
