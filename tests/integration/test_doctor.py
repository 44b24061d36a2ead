"""Each damage is made on a real checkpoint or snapshot, found alone, repaired; and the output is exact."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from pyarrow import parquet
from pyspark.sql import SparkSession

from assets.examination.examining import diagnosed
from assets.examination.snapshots import packs_of
from ft_policies.doctor.findings import FindingKind as Kind, RepairKind, Severity
from ft_policies.errors import PermanentError
from orchestration.playbooks.aside import Aside
from orchestration.playbooks.repair import Repairing
from resources.control.schema import ledger, ledger_copies
from resources.vault.cut import numbers
from resources.vault.state_files import shared_sizes
from streaming.checkpoint import last_committed
from tests.support.queries import NAME
from tests.support.spark_patients import HDFS, ROCKSDB, SparkPatient, a_spark_patient

pytestmark = pytest.mark.integration
RUN = "cli-00000001"


@pytest.fixture(scope="module", autouse=True)
def impatient() -> Iterator[None]:
    """Nothing is in flight: look again at once."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("assets.examination.examining.AGAIN_SECONDS", 0.0)
        yield


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[SparkPatient]:
    with a_spark_patient(tmp_path_factory.mktemp("hdfs"), spark, HDFS) as patient:
        yield patient


@pytest.fixture(scope="module")
def rocksdb(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> Iterator[SparkPatient]:
    with a_spark_patient(tmp_path_factory.mktemp("rocksdb"), spark, ROCKSDB) as patient:
        yield patient


def found(patient: SparkPatient) -> list[Kind]:
    return [one.kind for one in diagnosed(patient.world, NAME, deep=True).findings]


def repaired(patient: SparkPatient, chosen: RepairKind | None = None) -> list[str]:
    repairing = Repairing(world=patient.world, stream=NAME, run=RUN, chosen=chosen, deep=True)
    return [performed.name for performed in repairing.steps()]


def rows_of(patient: SparkPatient) -> Counter[tuple[int, int]]:
    table = patient.runner.output(patient.first)
    return Counter(table[["key", "count"]].itertuples(index=False, name=None))


def newest(checkpoint: Path) -> int:
    epoch = last_committed(checkpoint)
    assert epoch is not None
    return epoch


def flip(file: Path) -> None:
    body = bytearray(file.read_bytes())
    body[len(body) // 2] ^= 0xFF
    file.write_bytes(bytes(body))


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-10])


def a_table_of_rocksdb(checkpoint: Path) -> Path:
    """A file that the newest version of some store needs."""
    version = newest(checkpoint) + 1
    for store in sorted(checkpoint.glob("state/0/[0-9]*")):
        for name in shared_sizes(store / f"{version}.zip"):
            return store / name
    raise AssertionError("no store has a table")


ON_HDFS: dict[str, tuple[Kind, Callable[[Path], None]]] = {
    "an offset is gone": (
        Kind.HOLE_IN_OFFSETS,
        lambda at: (at / "offsets" / str(newest(at) - 1)).unlink(),
    ),
    "a commit is gone": (
        Kind.HOLE_IN_COMMITS,
        lambda at: (at / "commits" / str(newest(at) - 1)).unlink(),
    ),
    "a commit is ahead": (
        Kind.COMMIT_AHEAD_OF_OFFSET,
        lambda at: [
            (at / "offsets" / str(n)).unlink() for n in numbers(at / "offsets") if n >= newest(at)
        ],
    ),
    "the metadata is gone": (Kind.MISSING_METADATA, lambda at: (at / "metadata").unlink()),
    "a delta is gone": (
        Kind.STATE_FILE,
        lambda at: (at / "state/0/0" / f"{newest(at) + 1}.delta").unlink(),
    ),
    "a delta is cut": (
        Kind.STATE_FILE,
        lambda at: cut(at / "state/0/1" / f"{newest(at) + 1}.delta"),
    ),
    "a delta is changed": (
        Kind.STATE_FILE,
        lambda at: flip(at / "state/0/0" / f"{newest(at) + 1}.delta"),
    ),
}
ON_ROCKSDB: dict[str, tuple[Kind, Callable[[Path], None]]] = {
    "a version is gone": (
        Kind.STATE_FILE,
        lambda at: (at / "state/0/0" / f"{newest(at) + 1}.zip").unlink(),
    ),
    "a version is cut": (
        Kind.STATE_FILE,
        lambda at: cut(at / "state/0/1" / f"{newest(at) + 1}.zip"),
    ),
    "a table is gone": (Kind.STATE_FILE, lambda at: a_table_of_rocksdb(at).unlink()),
    "a table is changed": (Kind.STATE_FILE, lambda at: flip(a_table_of_rocksdb(at))),
}


def demand_repair_of_a_checkpoint(
    patient: SparkPatient, kind: Kind, damage: Callable[[Path], None]
) -> None:
    with patient.live_copy() as checkpoint:
        assert found(patient) == []
        damage(checkpoint)
        (finding,) = diagnosed(patient.world, NAME, deep=True).findings
        assert (finding.kind, finding.where) == (kind, str(checkpoint))
        assert finding.severity is not Severity.NOTE
        assert repaired(patient) == ["EndPrimary"]
    assert patient.go_on() == patient.shipped[-1]


@pytest.mark.parametrize("damage", list(ON_HDFS))
def test_a_damaged_checkpoint_is_replaced_by_a_snapshot(hdfs: SparkPatient, damage: str) -> None:
    demand_repair_of_a_checkpoint(hdfs, *ON_HDFS[damage])


@pytest.mark.parametrize("damage", list(ON_ROCKSDB))
def test_a_damaged_checkpoint_of_rocksdb_is_replaced_by_a_snapshot(
    rocksdb: SparkPatient, damage: str
) -> None:
    demand_repair_of_a_checkpoint(rocksdb, *ON_ROCKSDB[damage])


def demand_repair_of_snapshots(
    patient: SparkPatient, keys: list[str], damaged: bytes | None, *, goes_on_from: int | None
) -> list[Kind]:
    """Damage objects, or lose them; the repair passes them over, and taking it back gives them back."""
    objects = patient.world.object_store()
    kept = {key: objects.get(key) for key in keys}
    listed = [one.id for one in patient.vault.list()]
    if damaged is None:
        objects.delete(keys)
    else:
        for key in keys:
            objects.put(key, damaged)
    kinds = found(patient)
    assert repaired(patient) == ["SetAsideSnapshots"]
    assert found(patient) == []
    assert patient.go_on() == goes_on_from
    Aside(patient.world, NAME, RUN).undo()
    assert [one.id for one in patient.vault.list()] == listed
    for key, body in kept.items():
        objects.put(key, body)
    assert found(patient) == []
    return kinds


def packs(patient: SparkPatient) -> list[str]:
    return [one.key for one in patient.world.object_store().list(packs_of(NAME))]


def test_a_lost_pack_is_passed_over(rocksdb: SparkPatient) -> None:
    older = rocksdb.shipped[0]
    kinds = demand_repair_of_snapshots(rocksdb, packs(rocksdb)[-1:], None, goes_on_from=older)
    assert kinds == [Kind.PACK_GONE]


def test_a_changed_pack_is_passed_over(hdfs: SparkPatient) -> None:
    (pack,) = packs(hdfs)[-1:]
    body = bytearray(hdfs.world.object_store().get(pack))
    body[0] ^= 0xFF
    older = hdfs.shipped[0]
    kinds = demand_repair_of_snapshots(hdfs, [pack], bytes(body), goes_on_from=older)
    assert kinds == [Kind.PACK_DAMAGED]


def test_an_unreadable_manifest_is_passed_over(hdfs: SparkPatient) -> None:
    key = hdfs.vault.manifest_key(hdfs.vault.list()[0].id)
    older = hdfs.shipped[0]
    kinds = demand_repair_of_snapshots(hdfs, [key], b"no gzip", goes_on_from=older)
    assert kinds == [Kind.MANIFEST_UNREADABLE]


def test_with_no_snapshot_left_the_state_is_rebuilt_from_the_epoch_log(hdfs: SparkPatient) -> None:
    kinds = demand_repair_of_snapshots(hdfs, packs(hdfs), None, goes_on_from=None)
    assert kinds == [Kind.PACK_GONE, Kind.PACK_GONE, Kind.NO_SNAPSHOT]


def test_an_entry_that_the_ledger_lost_comes_back_from_the_table(hdfs: SparkPatient) -> None:
    store = hdfs.runner.store
    was = store.ledger.get(NAME, 3)
    assert was is not None
    assert was.rows > 0
    for table in (ledger_copies, ledger):
        store._database.execute(sa.delete(table).where(table.c.stream == NAME, table.c.epoch == 3))
    assert found(hdfs) == [Kind.WRITTEN_NOT_ENTERED]
    assert repaired(hdfs) == ["EnterEpochs"]
    entry = store.ledger.get(NAME, 3)
    assert entry is not None
    assert (entry.rows, entry.digest) == (was.rows, was.digest)
    assert (entry.replica, entry.token) == (was.replica, was.token)
    assert found(hdfs) == []
    Aside(hdfs.world, NAME, RUN).confirm()


def test_input_that_is_lost_is_given_up_by_name_to_the_row_and_no_other(
    hdfs: SparkPatient,
) -> None:
    """The last one that has this patient: what it gives up stays lost."""
    store, inputs = hdfs.runner.store, hdfs.runner.home / "input"
    needed = store.epochs.get(NAME, hdfs.shipped[-1] + 1)
    assert needed is not None
    (name,) = [file["name"] for file in needed.input["files"]]
    (inputs / name).unlink()
    (finding,) = diagnosed(hdfs.world, NAME).findings
    assert (finding.kind, finding.epochs) == (Kind.SOURCE_EXPIRED, (needed.epoch,))
    assert f"{needed.rows} rows cannot be read again" in finding.evidence
    assert repaired(hdfs) == [], "a stream that is precise gives up nothing unasked"
    assert repaired(hdfs, RepairKind.SKIP_INPUT) == ["SkipInput"]
    assert found(hdfs) == [Kind.INPUT_SKIPPED]
    (gap,) = store.gaps.of(NAME)
    assert (gap.rows, gap.last_entered) == (needed.rows, hdfs.last)

    out = rows_of(hdfs)
    hdfs.one_more_file()
    assert hdfs.go_on() == hdfs.shipped[-1]
    left = [key for file in inputs.iterdir() for key in parquet.read_table(file)["key"].to_pylist()]
    assert rows_of(hdfs) - out == Counter(Counter(left).items())
    assert out - rows_of(hdfs) == Counter()
    with pytest.raises(PermanentError, match="has gone on without what"):
        Aside(hdfs.world, NAME, RUN).undo()
