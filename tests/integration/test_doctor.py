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
from holdfast.observation.doctor.examine import diagnosed
from holdfast.observation.doctor.snapshots import packs_of
from holdfast.orchestration.playbooks.repair.quarantine import Quarantine
from holdfast.orchestration.playbooks.repair.repair import Repair
from holdfast.resources.control_store.schema import ledger, ledger_copies
from tests.support.control_builders import recorded
from tests.support.queries import NAME
from tests.support.spark_damages import IN_LOGS, ON_CHANGELOGS, ON_HDFS, ON_ROCKSDB, the_same
from tests.support.spark_patients import CHANGELOGS, HDFS, ROCKSDB, SparkPatient, a_spark_patient

pytestmark = pytest.mark.integration
RUN = "cli-00000001"
REST = ("a changelog is gone", "a changelog is changed")


@pytest.fixture(scope="module", autouse=True)
def impatient() -> Iterator[None]:
    """Nothing is in flight: look again at once."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("holdfast.observation.doctor.examine.AGAIN_SECONDS", 0.0)
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


@pytest.fixture(scope="module")
def changelogs(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> Iterator[SparkPatient]:
    with a_spark_patient(tmp_path_factory.mktemp("changelogs"), spark, CHANGELOGS) as patient:
        yield patient


@pytest.fixture
def patient(request: pytest.FixtureRequest) -> SparkPatient:
    """The one that a test names."""
    named: SparkPatient = request.getfixturevalue(request.param)
    return named


def on(first: str, second: str) -> pytest.MarkDecorator:
    """On both patients, one of them only where there is time."""
    slow = pytest.param(second, marks=pytest.mark.slow)
    return pytest.mark.parametrize("patient", [first, slow], indirect=True)


def found(patient: SparkPatient) -> list[Kind]:
    return [one.kind for one in diagnosed(patient.world, NAME, deep=True).findings]


def repaired(patient: SparkPatient, chosen: RepairKind | None = None) -> list[str]:
    repairing = Repair(world=patient.world, stream=NAME, run=RUN, chosen=chosen, deep=True)
    return [performed.name for performed in repairing.steps()]


def rows_of(patient: SparkPatient) -> Counter[tuple[int, int]]:
    table = patient.runner.output(patient.first)
    return Counter(table[["key", "count"]].itertuples(index=False, name=None))


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


@on("hdfs", "rocksdb")
@pytest.mark.parametrize("damage", list(IN_LOGS))
def test_a_checkpoint_with_damaged_logs_is_replaced_by_a_snapshot(
    patient: SparkPatient, damage: str
) -> None:
    demand_repair_of_a_checkpoint(patient, *IN_LOGS[damage])


@pytest.mark.parametrize("damage", list(ON_HDFS))
def test_a_checkpoint_with_damaged_state_is_replaced_by_a_snapshot(
    hdfs: SparkPatient, damage: str
) -> None:
    demand_repair_of_a_checkpoint(hdfs, *ON_HDFS[damage])


@pytest.mark.parametrize("damage", list(ON_ROCKSDB))
def test_a_checkpoint_of_rocksdb_with_damaged_state_is_replaced_by_a_snapshot(
    rocksdb: SparkPatient, damage: str
) -> None:
    demand_repair_of_a_checkpoint(rocksdb, *ON_ROCKSDB[damage])


@pytest.mark.parametrize(
    "damage",
    ["a changelog is cut", *(pytest.param(one, marks=pytest.mark.slow) for one in REST)],
)
def test_a_checkpoint_with_damaged_changelogs_is_replaced_by_a_snapshot(
    changelogs: SparkPatient, damage: str
) -> None:
    demand_repair_of_a_checkpoint(changelogs, *ON_CHANGELOGS[damage])


def test_a_changelog_that_was_cut_is_not_shipped(changelogs: SparkPatient) -> None:
    with changelogs.live_copy() as checkpoint:
        ON_CHANGELOGS["a changelog is cut"][1](checkpoint)
        with pytest.raises(PermanentError, match="damaged"):
            changelogs.ship(checkpoint, checkpoint.parents[1].name)


@pytest.mark.parametrize("patient", ["hdfs", "rocksdb"], indirect=True)
def test_state_that_was_cut_is_not_shipped(patient: SparkPatient) -> None:
    with patient.live_copy() as checkpoint:
        the_same(patient, "a delta is cut", "a version is cut")(checkpoint)
        with pytest.raises(PermanentError) as refused:
            patient.ship(checkpoint, checkpoint.parents[1].name)
    assert "damaged" in f"{refused.value} {refused.value.hint}"
    assert [one.epoch for one in patient.vault.list()] == patient.shipped[::-1]


@on("hdfs", "rocksdb")
def test_a_snapshot_that_was_shipped_with_the_damage_is_passed_over(patient: SparkPatient) -> None:
    with patient.live_copy() as checkpoint:
        the_same(patient, "a delta is changed", "a table is changed")(checkpoint)
        shipped = patient.ship(checkpoint, checkpoint.parents[1].name)
        assert found(patient) == [Kind.STATE_FILE, Kind.SHIPPED_DAMAGED]
        assert repaired(patient) == ["SetAsideSnapshots", "EndPrimary"]
    assert shipped.epoch > patient.shipped[-1]
    assert patient.go_on() == patient.shipped[-1]
    Quarantine(patient.world, NAME, RUN).confirm()


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
    Quarantine(patient.world, NAME, RUN).undo()
    assert [one.id for one in patient.vault.list()] == listed
    for key, body in kept.items():
        objects.put(key, body)
    assert found(patient) == []
    return kinds


def packs(patient: SparkPatient) -> list[str]:
    return [one.key for one in patient.world.object_store().list(packs_of(NAME))]


@on("rocksdb", "hdfs")
def test_a_lost_pack_is_passed_over(patient: SparkPatient) -> None:
    older = patient.shipped[0]
    kinds = demand_repair_of_snapshots(patient, packs(patient)[-1:], None, goes_on_from=older)
    assert kinds == [Kind.PACK_GONE]


@on("hdfs", "rocksdb")
def test_a_changed_pack_is_passed_over(patient: SparkPatient) -> None:
    (pack,) = packs(patient)[-1:]
    body = bytearray(patient.world.object_store().get(pack))
    body[0] ^= 0xFF
    older = patient.shipped[0]
    kinds = demand_repair_of_snapshots(patient, [pack], bytes(body), goes_on_from=older)
    assert kinds == [Kind.PACK_DAMAGED]


@on("hdfs", "rocksdb")
def test_an_unreadable_manifest_is_passed_over(patient: SparkPatient) -> None:
    key = patient.vault.manifest_key(patient.vault.list()[0].id)
    older = patient.shipped[0]
    kinds = demand_repair_of_snapshots(patient, [key], b"no gzip", goes_on_from=older)
    assert kinds == [Kind.MANIFEST_UNREADABLE]


@on("hdfs", "rocksdb")
def test_with_no_snapshot_left_the_state_is_rebuilt_from_the_epoch_log(
    patient: SparkPatient,
) -> None:
    kinds = demand_repair_of_snapshots(patient, packs(patient), None, goes_on_from=None)
    assert kinds == [Kind.PACK_GONE, Kind.PACK_GONE, Kind.NO_SNAPSHOT]


@on("hdfs", "rocksdb")
def test_an_entry_that_the_ledger_lost_comes_back_from_the_table(patient: SparkPatient) -> None:
    store = patient.runner.store
    was = store.ledger.get(NAME, 3)
    assert was is not None
    assert was.rows > 0
    for table in (ledger_copies, ledger):
        store._database.execute(sa.delete(table).where(table.c.stream == NAME, table.c.epoch == 3))
    assert found(patient) == [Kind.WRITTEN_NOT_ENTERED]
    assert repaired(patient) == ["EnterEpochs"]
    entry = store.ledger.get(NAME, 3)
    assert entry is not None
    assert (entry.rows, entry.digest) == (was.rows, was.digest)
    assert (entry.replica, entry.token) == (was.replica, was.token)
    assert found(patient) == []
    Quarantine(patient.world, NAME, RUN).confirm()


@on("hdfs", "rocksdb")
def test_output_that_the_table_lost_is_computed_again(patient: SparkPatient) -> None:
    """As after a table was put back from a copy that is older than the ledger."""
    before, first = rows_of(patient), patient.shipped[-1] - 1
    lost = [
        commit["version"]
        for commit in patient.runner.table(patient.first).history()
        if int(commit.get("holdfast.epoch", -1)) >= first
    ]
    for version in lost:
        Path(patient.first.table, "_delta_log", f"{version:020d}.json").unlink()
    (finding,) = diagnosed(patient.world, NAME).findings
    assert (finding.kind, finding.epochs[0]) == (Kind.ENTERED_NOT_WRITTEN, first)
    assert rows_of(patient) < before
    assert repaired(patient) == ["SetAsideSnapshots"]
    assert patient.go_on() == patient.shipped[0]
    assert rows_of(patient) == before
    assert found(patient) == []
    Quarantine(patient.world, NAME, RUN).undo()
    assert found(patient) == []


@on("hdfs", "rocksdb")
def test_catalogue_and_object_store_are_brought_together(patient: SparkPatient) -> None:
    store, objects = patient.runner.store, patient.world.object_store()
    newest = patient.vault.list()[0]
    store.snapshots.forget(NAME, newest.id)
    assert found(patient) == [Kind.MANIFEST_WITHOUT_ROW]
    assert repaired(patient) == ["EnterSnapshots"]
    assert found(patient) == []
    key = patient.vault.manifest_key(newest.id)
    manifest = objects.get(key)
    objects.delete([key])
    assert found(patient) == [Kind.ROW_WITHOUT_MANIFEST]
    assert repaired(patient) == ["MarkSnapshots"]
    assert found(patient) == []
    objects.put(key, manifest)
    Quarantine(patient.world, NAME, RUN).undo()
    recorded(store, patient.vault, NAME, newest.id)
    assert found(patient) == []


@on("hdfs", "rocksdb")
def test_input_that_is_lost_is_given_up_by_name_to_the_row_and_no_other(
    patient: SparkPatient,
) -> None:
    """The last one that has these patients: what they give up stays lost."""
    store, inputs = patient.runner.store, patient.runner.home / "input"
    needed = store.epochs.get(NAME, patient.shipped[-1] + 1)
    assert needed is not None
    (name,) = [file["name"] for file in needed.input["files"]]
    (inputs / name).unlink()
    (finding,) = diagnosed(patient.world, NAME).findings
    assert (finding.kind, finding.epochs) == (Kind.SOURCE_EXPIRED, (needed.epoch,))
    assert f"{needed.rows} rows cannot be read again" in finding.evidence
    assert repaired(patient) == [], "a stream that is precise gives up nothing unasked"
    assert repaired(patient, RepairKind.SKIP_INPUT) == ["SkipInput"]
    assert found(patient) == [Kind.INPUT_SKIPPED]
    (gap,) = store.gaps.of(NAME)
    assert (gap.rows, gap.last_entered) == (needed.rows, patient.last)

    out = rows_of(patient)
    patient.one_more_file()
    assert patient.go_on() == patient.shipped[-1]
    left = [key for file in inputs.iterdir() for key in parquet.read_table(file)["key"].to_pylist()]
    assert rows_of(patient) - out == Counter(Counter(left).items())
    assert out - rows_of(patient) == Counter()
    with pytest.raises(PermanentError, match="has gone on without what"):
        Quarantine(patient.world, NAME, RUN).undo()
