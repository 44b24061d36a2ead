"""Epoch source and sinks in a real query: batch k is epoch k, and its output is committed once."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from moto.server import ThreadedMotoServer
from pyarrow import fs, parquet
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import holdfast.resources.project
from holdfast.assets.rehash import rehash
from holdfast.configs.declarations.deployment import Deployment, S3ObjectStore as S3Declaration
from holdfast.configs.declarations.sinks import DeltaSink
from holdfast.configs.declarations.stream import FIXED_SPARK_CONF
from holdfast.configs.project import ProjectConfig
from holdfast.ft_policies.table_epochs import EpochRange
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.object_store.resolve import connector, open_filesystem
from holdfast.resources.object_store.s3 import S3ObjectStore
from holdfast.resources.vault.checkpoint.integrity import LZ4, read_codec
from holdfast.streaming.sinks.delta.compaction import TableCompaction
from holdfast.streaming.sinks.delta.lineage import DIGEST
from holdfast.streaming.spark.checkpoint import CHECKPOINT_CONF
from holdfast.streaming.spec import ReplicaSpec
from tests.live.apps import WRITES
from tests.live.spark_queries import NAME, RATE, QueryProject, checkpoint_of
from tests.waiting import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def project(tmp_path: Path, spark: SparkSession) -> Iterator[QueryProject]:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as store:
        yield QueryProject(tmp_path, store, spark)


def test_two_replicas_that_never_met_compute_the_same_epochs_and_commit_each_once(
    project: QueryProject,
) -> None:
    spec = project.spec("one")
    project.run(spec, through_epoch=6)
    other = project.spec("other")
    project.run(other, through_epoch=8)

    audit = project.store.ledger.audit(NAME)
    assert (audit.holes, audit.disagreements) == ([], [])
    assert {entry.replica for entry in project.ledger()} == {"one", "other"}
    output = project.output(spec)
    assert sorted(output["offset"]) == list(range(2000))
    epochs = [
        int(commit["holdfast.epoch"])
        for commit in project.table(spec).history()
        if "holdfast.epoch" in commit
    ]
    assert len(epochs) == len(set(epochs))


def test_all_that_spark_binds_a_checkpoint_to_is_known_with_its_defaults(
    project: QueryProject,
) -> None:
    spec = project.spec("one")
    project.run(spec, through_epoch=0)
    offsets = checkpoint_of(spec) / "offsets" / "0"
    bound = json.loads(offsets.read_text().splitlines()[1])["conf"]
    format_version = "spark.sql.streaming.stateStore.checkpointFormatVersion"  # shown by file names
    assert bound | {format_version: FIXED_SPARK_CONF[format_version]} == CHECKPOINT_CONF
    assert read_codec(checkpoint_of(spec)) == LZ4


def test_an_epoch_in_which_nothing_arrived_is_empty_and_counts(project: QueryProject) -> None:
    spec = project.spec("one", epoch={"rows": 2000, "seconds": 0.2, "silence": 0.3})
    project.run(spec, through_epoch=4)
    rows = [epoch.rows for epoch in project.store.epochs.between(NAME, 0, 4)]
    assert rows[0] == 0
    assert sum(rows) == 2000
    assert rows[-1] == 0
    assert [entry.epoch for entry in project.ledger()][:5] == [0, 1, 2, 3, 4]


def test_with_the_guarantee_gap_a_late_replica_skips_the_outage_and_counts_its_rows(
    project: QueryProject,
) -> None:
    declared = {
        "source": {
            **RATE,
            "profile": {"kind": "constant", "rows_per_second": 500},
            "limit_rows": None,
        },
        "objective": {"recovery_time": 1, "guarantee": "gap"},
    }
    project.run(project.spec("one", **declared), through_epoch=3)
    last = project.store.epochs.last(NAME)
    assert last is not None
    wait_until(lambda: project.store.now() > last.decided_at + 1.5)
    spec = project.spec("two", **declared)
    project.run(spec, through_epoch=last.epoch + 3, token=2)

    late, *later = project.store.epochs.between(NAME, last.epoch + 1, last.epoch + 3)
    skipped = late.input["skipped_rows"]
    assert (late.proposer, late.rows, late.end["rows"]) == ("two", 0, last.end["rows"] + skipped)
    assert skipped >= 200
    assert sum(epoch.rows for epoch in later) > 0
    assert not any("skipped_rows" in epoch.input for epoch in later)
    (gap,) = project.store.gaps.of(NAME)
    assert (gap.first_epoch, gap.rows, gap.run) == (late.epoch, skipped, "two")
    offsets = project.output(spec)["offset"]
    through = later[-1].end["rows"]
    expected = {*range(last.end["rows"]), *range(late.end["rows"], through)}
    assert offsets.is_unique
    assert expected <= set(offsets)
    assert not set(offsets) & set(range(last.end["rows"], late.end["rows"]))
    assert project.store.ledger.audit(NAME).holes == []


def test_output_that_differs_from_the_first_replicas_raises_an_incident(
    project: QueryProject,
) -> None:
    project.run(project.spec("one"), through_epoch=3)
    entry = next(entry for entry in project.ledger() if entry.rows)
    project.run(project.spec("odd", source={**RATE, "seed": 6}), through_epoch=entry.epoch)
    incidents = project.store.incidents.of(NAME)
    assert {incident.kind for incident in incidents} == {"digest_differs"}
    assert entry.epoch in {incident.detail["epoch"] for incident in incidents}


def test_a_partitioned_table_with_nested_columns_reads_back(project: QueryProject) -> None:
    spec = project.spec(
        "one",
        app="tests.live.apps:with_maps",
        sink={"kind": "delta", "partition_by": ["parity"]},
    )
    project.run(spec, through_epoch=5)
    output = project.output(spec)
    assert sorted(output["offset"]) == list(range(2000))
    assert (output["offset"] % 2 == output["parity"]).all()
    assert len(project.table(spec).partitions()) == 2


def test_a_table_with_other_columns_is_refused_before_anything_is_written(
    project: QueryProject,
) -> None:
    project.run(project.spec("one"), through_epoch=2)
    changed = project.spec("two", app="tests.live.apps:with_maps")
    with pytest.raises(StreamingQueryException, match="does not fit the table"):
        project.run(changed, through_epoch=3)


def test_the_users_own_sink_is_called_once_an_epoch_and_again_only_after_its_failure(
    project: QueryProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WRITES, str(tmp_path / "writes"))
    sink = {"kind": "callable", "idempotent": True}
    spec = project.spec("one", sink={**sink, "function": "tests.live.apps:write_and_fail_once"})
    with pytest.raises(StreamingQueryException, match="the user's sink broke"):
        project.run(spec, through_epoch=3)
    project.run(spec, through_epoch=3)
    later = project.spec("two", sink={**sink, "function": "tests.live.apps:write_lines"})
    project.run(later, through_epoch=3)

    lines = [json.loads(line) for line in (tmp_path / "writes").read_text().splitlines()]
    calls = [line["epoch"] for line in lines if line["epoch"] <= 3]
    assert calls == [0, 1, 1, 2, 3]


def some_files(files: fs.FileSystem, root: str, count: int) -> None:
    for number in range(count):
        table = pa.table({"id": range(number * 10, number * 10 + 10)})
        with files.open_output_stream(f"{root}/{number:03}.parquet") as out:
            parquet.write_table(table, out)


@pytest.fixture
def s3() -> Iterator[S3Declaration]:
    """An S3 endpoint with conditional writes, which a table needs."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    declared = S3Declaration(
        endpoint_url=f"http://{host}:{port}",
        bucket="tables",
        access_key_id_env="TABLES_KEY",
        # pragma: allowlist nextline secret
        secret_access_key_env="TABLES_SECRET",  # noqa: S106 - the name of a variable
    )
    S3ObjectStore(connector(declared, Path())).ensure_bucket()
    yield declared
    server.stop()


def test_files_on_s3_flow_into_a_table_on_s3(project: QueryProject, s3: S3Declaration) -> None:
    files, root = open_filesystem("s3://tables/input", connector(s3, project.home))
    some_files(files, root, 5)
    source = {
        "kind": "files",
        "path": "s3://tables/input",
        "format": "parquet",
        "schema": "id bigint",
        "settle": 0.1,
        "poll": 0.1,
    }
    spec = project.spec(
        "one",
        table="s3://tables/output",
        object_store=s3,
        source=source,
        epoch={"rows": 20, "seconds": 0.2, "silence": 1},
    )
    project.run(spec, through_epoch=3)
    assert sorted(project.output(spec)["id"]) == list(range(50))


def test_an_input_file_that_changes_after_it_was_assigned_stops_the_query_with_a_reason(
    project: QueryProject, tmp_path: Path
) -> None:
    folder = tmp_path / "input"
    folder.mkdir()
    some_files(fs.LocalFileSystem(), str(folder), 2)
    for file in folder.iterdir():
        os.utime(file, (1_000_000, 1_000_000))
    source = {"kind": "files", "path": str(folder), "format": "parquet", "schema": "id bigint"}
    project.run(project.spec("one", source=source), through_epoch=1)
    parquet.write_table(pa.table({"id": [666]}), folder / "000.parquet")
    with pytest.raises(StreamingQueryException, match=r"000\.parquet .* has changed since"):
        project.run(project.spec("two", source=source), through_epoch=1)
    assert 666 not in pd.Series(project.output(project.spec("three", source=source))["id"]).tolist()


def test_a_table_with_other_partitions_is_refused(project: QueryProject) -> None:
    project.run(project.spec("one"), through_epoch=2)
    changed = project.spec("two", sink={"kind": "delta", "partition_by": ["key"]})
    with pytest.raises(StreamingQueryException, match="is partitioned by"):
        project.run(changed, through_epoch=3)


def test_a_table_of_another_control_store_is_refused(project: QueryProject, tmp_path: Path) -> None:
    project.run(project.spec("one"), through_epoch=5)
    with ControlStore.open(f"sqlite:///{tmp_path}/other.db") as other:
        stranger = QueryProject(tmp_path / "other", other, project.spark)
        spec = stranger.spec("two", table=str(tmp_path / "table"))
        with pytest.raises(StreamingQueryException, match="neither its log nor the ledger has it"):
            stranger.run(spec, through_epoch=5)


def test_a_changed_row_in_the_table_is_found_by_hashing_it_again(project: QueryProject) -> None:
    spec = project.spec("one")
    project.run(spec, through_epoch=6)
    config = written_project(project, spec)
    assert rehash(config, NAME, project.spark, newest=100).differing == []
    entry = next(entry for entry in project.ledger() if entry.rows)
    (file,) = Path(spec.table).glob(f"data/{entry.epoch:012d}-*/part-00000*.parquet")
    table = parquet.read_table(file)
    parquet.write_table(table.set_column(2, "key", pa.nulls(len(table), pa.int32())), file)
    differences = rehash(config, NAME, project.spark, newest=100)
    assert len(differences.epochs) >= 4
    assert differences.differing == [entry.epoch]


def test_merged_epochs_have_the_rows_that_spark_has_hashed(project: QueryProject) -> None:
    spec = project.spec("one", sink={"kind": "delta", "partition_by": ["key"]})
    project.run(spec, through_epoch=6)
    config, last = written_project(project, spec), project.ledger()[-2].epoch
    before = rehash(config, NAME, project.spark, newest=100)
    entries = {entry.epoch: entry for entry in project.ledger()}
    compaction = TableCompaction(spec.table, spec.connect)
    merged = compaction.merge(NAME, EpochRange(0, last), entries, now=1.0)
    assert merged.files < merged.files_before
    assert rehash(config, NAME, project.spark, newest=100) == before
    assert before.differing == []
    file = next(Path(spec.table).glob("data/*-merged-*/key=*/part-0.parquet"))
    table = parquet.read_table(file, partitioning=None)
    digest = {DIGEST: merged.digest}
    changed = table.set_column(0, table.field(0), pa.nulls(len(table), table.field(0).type))
    parquet.write_table(changed.replace_schema_metadata(digest), file)
    differing = rehash(config, NAME, project.spark, newest=100).differing
    assert differing
    assert max(differing) <= last


def written_project(project: QueryProject, spec: ReplicaSpec) -> holdfast.resources.project.Project:
    """The project that a user would have written for this replica."""
    config = ProjectConfig(
        root=project.home,
        home=project.home,
        deployment=Deployment(),
        streams={
            NAME: spec.stream.model_copy(update={"sink": DeltaSink(path=spec.table)}),
        },
        prices={},
    )
    return holdfast.resources.project.Project(config, project.store)
