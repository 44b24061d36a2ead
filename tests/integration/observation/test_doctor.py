"""Each damage is made on a real checkpoint or snapshot, found alone, repaired; and the output is exact.

All of it on both state stores; what differs in nothing but the store is slow on the second.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from pyarrow import parquet
from pyspark.sql import SparkSession

from holdfast.ft_policies.doctor.findings import FindingKind as Kind, RepairKind, Severity
from holdfast.ft_policies.errors import PermanentError
from holdfast.observation.doctor.examine import diagnose_stream
from holdfast.observation.doctor.snapshots import packs_prefix
from holdfast.orchestration.playbooks.repair.quarantine import Quarantine
from holdfast.orchestration.playbooks.repair.repair import Repair
from holdfast.resources.control_store.schema import ledger, ledger_copies
from tests.builders.control_rows import record_snapshot
from tests.live.spark_damages import IN_LOGS, ON_CHANGELOGS, ON_HDFS, ON_ROCKSDB, the_same
from tests.live.spark_queries import NAME
from tests.live.spark_stream import CHANGELOGS, HDFS, ROCKSDB, SparkStream, a_spark_stream

pytestmark = pytest.mark.integration
RUN = "cli-00000001"
REST = ("a changelog is gone", "a changelog is changed")


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[SparkStream]:
    with a_spark_stream(tmp_path_factory.mktemp("hdfs"), spark, HDFS) as stream:
        yield stream


@pytest.fixture(scope="module")
def rocksdb(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[SparkStream]:
    with a_spark_stream(tmp_path_factory.mktemp("rocksdb"), spark, ROCKSDB) as stream:
        yield stream


@pytest.fixture(scope="module")
def changelogs(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> Iterator[SparkStream]:
    with a_spark_stream(tmp_path_factory.mktemp("changelogs"), spark, CHANGELOGS) as stream:
        yield stream


@pytest.fixture
def stream(request: pytest.FixtureRequest) -> SparkStream:
    """The one that a test names."""
    named: SparkStream = request.getfixturevalue(request.param)
    return named


def on(first: str, second: str) -> pytest.MarkDecorator:
    """On both streams, one of them only where there is time."""
    slow = pytest.param(second, marks=pytest.mark.slow)
    return pytest.mark.parametrize("stream", [first, slow], indirect=True)


def finding_kinds(stream: SparkStream) -> list[Kind]:
    return [finding.kind for finding in diagnose_stream(stream.project, NAME, deep=True).findings]


def run_repair(stream: SparkStream, chosen: RepairKind | None = None) -> list[str]:
    repairing = Repair(project=stream.project, stream=NAME, run=RUN, chosen=chosen, deep=True)
    return [performed.name for performed in repairing.steps()]


def rows_of(stream: SparkStream) -> Counter[tuple[int, int]]:
    table = stream.runner.output(stream.first)
    return Counter(table[["key", "count"]].itertuples(index=False, name=None))


def require_repair_of_a_checkpoint(
    stream: SparkStream, kind: Kind, damage: Callable[[Path], None]
) -> None:
    with stream.live_copy() as checkpoint:
        assert finding_kinds(stream) == []
        damage(checkpoint)
        (finding,) = diagnose_stream(stream.project, NAME, deep=True).findings
        assert (finding.kind, finding.where) == (kind, str(checkpoint))
        assert finding.severity is not Severity.NOTE
        assert run_repair(stream) == ["EndPrimary"]
    assert stream.go_on() == stream.shipped[-1]


@on("hdfs", "rocksdb")
@pytest.mark.parametrize("damage", list(IN_LOGS))
def test_a_checkpoint_with_damaged_logs_is_replaced_by_a_snapshot(
    stream: SparkStream, damage: str
) -> None:
    require_repair_of_a_checkpoint(stream, *IN_LOGS[damage])


@pytest.mark.parametrize("damage", list(ON_HDFS))
def test_a_checkpoint_with_damaged_state_is_replaced_by_a_snapshot(
    hdfs: SparkStream, damage: str
) -> None:
    require_repair_of_a_checkpoint(hdfs, *ON_HDFS[damage])


@pytest.mark.parametrize("damage", list(ON_ROCKSDB))
def test_a_checkpoint_of_rocksdb_with_damaged_state_is_replaced_by_a_snapshot(
    rocksdb: SparkStream, damage: str
) -> None:
    require_repair_of_a_checkpoint(rocksdb, *ON_ROCKSDB[damage])


@pytest.mark.parametrize(
    "damage",
    ["a changelog is cut", *(pytest.param(damage, marks=pytest.mark.slow) for damage in REST)],
)
def test_a_checkpoint_with_damaged_changelogs_is_replaced_by_a_snapshot(
    changelogs: SparkStream, damage: str
) -> None:
    require_repair_of_a_checkpoint(changelogs, *ON_CHANGELOGS[damage])


def test_a_changelog_that_was_cut_is_not_shipped(changelogs: SparkStream) -> None:
    with changelogs.live_copy() as checkpoint:
        ON_CHANGELOGS["a changelog is cut"][1](checkpoint)
        with pytest.raises(PermanentError, match="damaged"):
            changelogs.ship(checkpoint, checkpoint.parents[1].name)


@pytest.mark.parametrize("stream", ["hdfs", "rocksdb"], indirect=True)
def test_state_that_was_cut_is_not_shipped(stream: SparkStream) -> None:
    with stream.live_copy() as checkpoint:
        the_same(stream, "a delta is cut", "a version is cut")(checkpoint)
        with pytest.raises(PermanentError) as refused:
            stream.ship(checkpoint, checkpoint.parents[1].name)
    assert "damaged" in f"{refused.value} {refused.value.hint}"
    assert [snapshot.epoch for snapshot in stream.vault.list()] == stream.shipped[::-1]


@on("hdfs", "rocksdb")
def test_a_snapshot_that_was_shipped_with_the_damage_is_passed_over(stream: SparkStream) -> None:
    with stream.live_copy() as checkpoint:
        the_same(stream, "a delta is changed", "a table is changed")(checkpoint)
        shipped = stream.ship(checkpoint, checkpoint.parents[1].name)
        assert finding_kinds(stream) == [Kind.STATE_FILE, Kind.SHIPPED_DAMAGED]
        assert run_repair(stream) == ["SetAsideSnapshots", "EndPrimary"]
    assert shipped.epoch > stream.shipped[-1]
    assert stream.go_on() == stream.shipped[-1]
    Quarantine(stream.project, NAME, RUN).confirm()


def require_repair_of_snapshots(
    stream: SparkStream, keys: list[str], damaged: bytes | None, *, goes_on_from: int | None
) -> list[Kind]:
    """Damage objects, or lose them; the repair passes them over, and taking it back gives them back."""
    objects = stream.project.object_store()
    kept = {key: objects.get(key) for key in keys}
    listed = [snapshot.id for snapshot in stream.vault.list()]
    if damaged is None:
        objects.delete(keys)
    else:
        for key in keys:
            objects.put(key, damaged)
    kinds = finding_kinds(stream)
    assert run_repair(stream) == ["SetAsideSnapshots"]
    assert finding_kinds(stream) == []
    assert stream.go_on() == goes_on_from
    Quarantine(stream.project, NAME, RUN).undo()
    assert [snapshot.id for snapshot in stream.vault.list()] == listed
    for key, body in kept.items():
        objects.put(key, body)
    assert finding_kinds(stream) == []
    return kinds


def packs(stream: SparkStream) -> list[str]:
    return [pack.key for pack in stream.project.object_store().list(packs_prefix(NAME))]


@on("rocksdb", "hdfs")
def test_a_lost_pack_is_passed_over(stream: SparkStream) -> None:
    older = stream.shipped[0]
    kinds = require_repair_of_snapshots(stream, packs(stream)[-1:], None, goes_on_from=older)
    assert kinds == [Kind.PACK_GONE]


@on("hdfs", "rocksdb")
def test_a_changed_pack_is_passed_over(stream: SparkStream) -> None:
    (pack,) = packs(stream)[-1:]
    body = bytearray(stream.project.object_store().get(pack))
    body[0] ^= 0xFF
    older = stream.shipped[0]
    kinds = require_repair_of_snapshots(stream, [pack], bytes(body), goes_on_from=older)
    assert kinds == [Kind.PACK_DAMAGED]


@on("hdfs", "rocksdb")
def test_an_unreadable_manifest_is_passed_over(stream: SparkStream) -> None:
    key = stream.vault.manifest_key(stream.vault.list()[0].id)
    older = stream.shipped[0]
    kinds = require_repair_of_snapshots(stream, [key], b"no gzip", goes_on_from=older)
    assert kinds == [Kind.MANIFEST_UNREADABLE]


@on("hdfs", "rocksdb")
def test_with_no_snapshot_left_the_state_is_rebuilt_from_the_epoch_log(
    stream: SparkStream,
) -> None:
    kinds = require_repair_of_snapshots(stream, packs(stream), None, goes_on_from=None)
    assert kinds == [Kind.PACK_GONE, Kind.PACK_GONE, Kind.NO_SNAPSHOT]


@on("hdfs", "rocksdb")
def test_an_entry_that_the_ledger_lost_comes_back_from_the_table(stream: SparkStream) -> None:
    store = stream.runner.store
    was = store.ledger.get(NAME, 3)
    assert was is not None
    assert was.rows > 0
    for table in (ledger_copies, ledger):
        store._database.execute(sa.delete(table).where(table.c.stream == NAME, table.c.epoch == 3))
    assert finding_kinds(stream) == [Kind.WRITTEN_NOT_ENTERED]
    assert run_repair(stream) == ["EnterEpochs"]
    entry = store.ledger.get(NAME, 3)
    assert entry is not None
    assert (entry.rows, entry.digest) == (was.rows, was.digest)
    assert (entry.replica, entry.token) == (was.replica, was.token)
    assert finding_kinds(stream) == []
    Quarantine(stream.project, NAME, RUN).confirm()


@on("hdfs", "rocksdb")
def test_output_that_the_table_lost_is_computed_again(stream: SparkStream) -> None:
    """As after a table was put back from a copy that is older than the ledger."""
    before, first = rows_of(stream), stream.shipped[-1] - 1
    lost = [
        commit["version"]
        for commit in stream.runner.table(stream.first).history()
        if int(commit.get("holdfast.epoch", -1)) >= first
    ]
    for version in lost:
        Path(stream.first.table, "_delta_log", f"{version:020d}.json").unlink()
    (finding,) = diagnose_stream(stream.project, NAME).findings
    assert (finding.kind, finding.epochs[0]) == (Kind.ENTERED_NOT_WRITTEN, first)
    assert rows_of(stream) < before
    assert run_repair(stream) == ["SetAsideSnapshots"]
    assert stream.go_on() == stream.shipped[0]
    assert rows_of(stream) == before
    assert finding_kinds(stream) == []
    Quarantine(stream.project, NAME, RUN).undo()
    assert finding_kinds(stream) == []


@on("hdfs", "rocksdb")
def test_catalogue_and_object_store_are_brought_together(stream: SparkStream) -> None:
    store, objects = stream.runner.store, stream.project.object_store()
    newest = stream.vault.list()[0]
    store.snapshots.forget(NAME, newest.id)
    assert finding_kinds(stream) == [Kind.MANIFEST_WITHOUT_ROW]
    assert run_repair(stream) == ["EnterSnapshots"]
    assert finding_kinds(stream) == []
    key = stream.vault.manifest_key(newest.id)
    manifest = objects.get(key)
    objects.delete([key])
    assert finding_kinds(stream) == [Kind.ROW_WITHOUT_MANIFEST]
    assert run_repair(stream) == ["MarkSnapshots"]
    assert finding_kinds(stream) == []
    objects.put(key, manifest)
    Quarantine(stream.project, NAME, RUN).undo()
    record_snapshot(store, stream.vault, NAME, newest.id)
    assert finding_kinds(stream) == []


@on("hdfs", "rocksdb")
def test_input_that_is_lost_is_given_up_by_name_to_the_row_and_no_other(
    stream: SparkStream,
) -> None:
    """The last one that has these streams: what they give up stays lost."""
    store, inputs = stream.runner.store, stream.runner.home / "input"
    needed = store.epochs.get(NAME, stream.shipped[-1] + 1)
    assert needed is not None
    (name,) = [file["name"] for file in needed.input["files"]]
    (inputs / name).unlink()
    (finding,) = diagnose_stream(stream.project, NAME).findings
    assert (finding.kind, finding.epochs) == (Kind.SOURCE_EXPIRED, (needed.epoch,))
    lost = f"{needed.rows} rows after the newest good snapshot cannot be read again"
    assert lost in finding.evidence
    assert run_repair(stream) == [], "a stream that is precise gives up nothing unasked"
    assert run_repair(stream, RepairKind.SKIP_INPUT) == ["SkipInput"]
    assert finding_kinds(stream) == [Kind.INPUT_SKIPPED]
    (gap,) = store.gaps.of(NAME)
    assert (gap.rows, gap.last_entered) == (needed.rows, stream.last)

    out = rows_of(stream)
    stream.one_more_file()
    assert stream.go_on() == stream.shipped[-1]
    left = [key for file in inputs.iterdir() for key in parquet.read_table(file)["key"].to_pylist()]
    assert rows_of(stream) - out == Counter(Counter(left).items())
    assert out - rows_of(stream) == Counter()
    with pytest.raises(
        PermanentError, match=r"cannot be closed: .* has committed epochs without that input"
    ):
        Quarantine(stream.project, NAME, RUN).undo()
