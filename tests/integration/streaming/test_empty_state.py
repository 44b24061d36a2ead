"""A stream whose state is lost for good continues after its last epoch with empty state, if the operator says so."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.vault.checkpoint.files import cut
from holdfast.streaming.query.empty_state import CHANGELOGS, make_empty_checkpoint
from holdfast.streaming.spark.checkpoint import PROVIDER, last_committed
from holdfast.streaming.spec import ReplicaSpec
from tests.live.spark_queries import NAME, RATE, QueryProject, checkpoint_of

pytestmark = pytest.mark.integration
ENDLESS = {
    "source": {
        **RATE,
        "profile": {"kind": "constant", "rows_per_second": 2000},
        "limit_rows": None,
    }
}
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@pytest.fixture
def project(tmp_path: Path, spark: SparkSession) -> Iterator[QueryProject]:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as store:
        yield QueryProject(tmp_path, store, spark)


@pytest.fixture(params=["hdfs", "rocksdb"])
def provider(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "rocksdb":
        spark.conf.set(PROVIDER, ROCKSDB)
        spark.conf.set(CHANGELOGS, "true")
    yield request.param
    spark.conf.unset(PROVIDER)
    spark.conf.unset(CHANGELOGS)


def continued(project: QueryProject, app: str, output_mode: str) -> tuple[ReplicaSpec, int]:
    """A stream whose first epochs are pruned and whose checkpoint is gone; it goes on after its last epoch."""
    declared = {"app": f"tests.live.apps:{app}", "output_mode": output_mode, **ENDLESS}
    project.run(project.spec("one", **declared), through_epoch=5)
    last = project.ledger()[-1].epoch
    project.store.retention.prune_epochs(NAME, before=4)
    spec = project.spec("two", **declared)
    make_empty_checkpoint(project.spark, spec, checkpoint_of(spec), after_epoch=last)
    assert last_committed(checkpoint_of(spec)) == last
    project.run(spec, through_epoch=last + 2)
    project.run(spec, through_epoch=last + 4)  # Spark itself starts from what it has written by now
    assert cut(checkpoint_of(spec), last + 4)
    return spec, last


@pytest.mark.usefixtures("provider")
def test_counts_begin_again_after_the_last_epoch(project: QueryProject) -> None:
    spec, last = continued(project, "counted", "update")
    counts: dict[int, int] = {}
    for fragment in project.table(spec).to_pyarrow_dataset().get_fragments():
        epoch = int(fragment.path.split("data/")[1][:12])
        if last < epoch <= last + 4:
            rows = fragment.to_table(columns=["key", "count"]).to_pylist()
            counts |= {row["key"]: max(row["count"], counts.get(row["key"], 0)) for row in rows}
    epochs = project.store.epochs.between(NAME, last + 1, last + 4)
    assert sum(counts.values()) == sum(epoch.rows for epoch in epochs)
    assert project.store.ledger.audit(NAME).holes == []


@pytest.mark.usefixtures("provider")
def test_a_join_with_several_stores_goes_on(project: QueryProject) -> None:
    spec, last = continued(project, "matched", "append")
    begin = project.store.epochs.between(NAME, last + 1, last + 1)[0].start["rows"]
    end = project.store.epochs.between(NAME, last + 4, last + 4)[0].end["rows"]
    assert set(project.output(spec)["offset"]) >= set(range(begin, end))
