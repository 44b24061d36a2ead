"""Reading a live checkpoint: each damage is found, alone, and its primary is ended."""

import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.ft_policies.doctor.diagnosis import diagnose
from holdfast.ft_policies.doctor.findings import FindingKind as Kind, RepairKind as Mend, Severity
from holdfast.observation.doctor.examine import diagnosed, examine
from holdfast.orchestration.playbooks.base import InnerSteps
from holdfast.orchestration.playbooks.repair.quarantine import Quarantine
from holdfast.orchestration.playbooks.repair.repair import Repair
from holdfast.resources.control_store.records import DesiredState, ReplicaState
from tests.fakes.checkpoints import StateKind
from tests.fakes.drivers import simulated_drivers
from tests.fakes.worlds import CLICKS, SimulatedWorld
from tests.support.patients import (
    REPLICA,
    RUN,
    a_live_patient,
    everything,
    kinds,
    patients,
    repaired,
    replica_row,
    ship,
    shorten,
    snapshot_id,
)
from tests.support.vaults import tree


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look again at once."""
    monkeypatch.setattr("holdfast.observation.doctor.examine.AGAIN_SECONDS", 0.0)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimulatedWorld]:
    with patients(tmp_path / "project").open() as opened:
        yield opened


@pytest.mark.parametrize("kind", [StateKind.HDFS, StateKind.ROCKSDB])
def test_nothing_is_found_in_a_stream_that_is_well(world: SimulatedWorld, kind: StateKind) -> None:
    a_live_patient(world, kind=kind)
    before = everything(world)
    assert kinds(world, deep=True) == []
    assert everything(world) == before


def test_nothing_is_found_in_a_stream_that_never_ran(world: SimulatedWorld) -> None:
    assert kinds(world, deep=True) == []


CHECKPOINT_DAMAGES: dict[str, tuple[Callable[[Path], None], Kind]] = {
    "an offset is gone": (lambda root: (root / "offsets/2").unlink(), Kind.HOLE_IN_OFFSETS),
    "an offset is empty": (lambda root: (root / "offsets/4").write_text(""), Kind.HOLE_IN_OFFSETS),
    "a commit is gone": (lambda root: (root / "commits/2").unlink(), Kind.HOLE_IN_COMMITS),
    "the last offset is gone": (
        lambda root: (root / "offsets/5").unlink(),
        Kind.COMMIT_AHEAD_OF_OFFSET,
    ),
    "the metadata is gone": (lambda root: (root / "metadata").unlink(), Kind.MISSING_METADATA),
    "a delta is gone": (lambda root: (root / "state/0/0/6.delta").unlink(), Kind.STATE_FILE),
    "a shipped delta is shorter": (lambda r: shorten(r / "state/0/1/4.delta"), Kind.STATE_FILE),
}


@pytest.mark.parametrize("damage", list(CHECKPOINT_DAMAGES))
def test_a_damaged_checkpoint_ends_its_live_primary_and_is_a_note_afterwards(
    world: SimulatedWorld, damage: str
) -> None:
    checkpoint = a_live_patient(world)
    act, kind = CHECKPOINT_DAMAGES[damage]
    act(checkpoint.root)
    (found,) = diagnosed(world, CLICKS).findings
    assert (found.kind, found.where) == (kind, str(checkpoint.root))
    assert found.severity is not Severity.NOTE

    assert repaired(world) == ["EndPrimary"]

    assert replica_row(world).state is ReplicaState.FENCED
    (left,) = diagnosed(world, CLICKS).findings
    assert (left.kind, left.severity) == (kind, Severity.NOTE)
    assert examine(world, CLICKS).ended_by_doctor


@pytest.mark.parametrize("elsewhere", [True, False])
def test_the_checkpoint_of_a_primary_that_was_ended_is_kept_until_it_is_confirmed(
    tmp_path: Path, *, elsewhere: bool
) -> None:
    folder = {"resources": {"folder": str(tmp_path / "disk")}} if elsewhere else {}
    with patients(tmp_path / "project", **folder).open() as world:
        replicas = tmp_path / "disk" if elsewhere else world.config.home / "replicas"
        checkpoint = a_live_patient(world, replicas=replicas)
        (checkpoint.root / "metadata").unlink()
        before = tree(checkpoint.root)
        assert repaired(world) == ["EndPrimary"]
        assert tree(checkpoint.root) == before, "its process may still be there"
        for decide in (Quarantine.undo, Quarantine.confirm):
            shutil.rmtree(checkpoint.root)  # as the next start does
            decide(Quarantine(world, CLICKS, RUN))
            assert checkpoint.root.exists() is (decide is Quarantine.undo)
            if decide is Quarantine.undo:
                assert tree(checkpoint.root) == before
                Quarantine(world, CLICKS, RUN).keep_folder(checkpoint.root, below=replicas)
        assert not list(tmp_path.glob(f"**/aside/{RUN}"))


def test_a_changed_byte_of_shipped_state_needs_a_deep_look(world: SimulatedWorld) -> None:
    checkpoint = a_live_patient(world)
    file = checkpoint.root / "state/0/1/4.delta"
    body = bytearray(file.read_bytes())
    body[0] ^= 0xFF
    file.write_bytes(bytes(body))
    assert kinds(world) == []
    assert kinds(world, deep=True) == [Kind.STATE_FILE]


def flip_under_its_checksum(file: Path) -> None:
    """Change a byte of a file that has its checksum beside it, as Hadoop writes it."""
    body = bytearray(file.read_bytes())
    sums = b"crc\0" + (512).to_bytes(4, "big") + zlib.crc32(body).to_bytes(4, "big")
    file.with_name(f".{file.name}.crc").write_bytes(sums)
    body[0] ^= 0xFF
    file.write_bytes(bytes(body))


@pytest.mark.parametrize("deep", [False, True])
def test_a_snapshot_that_was_shipped_with_the_damage_is_not_what_the_next_primary_restores(
    world: SimulatedWorld, *, deep: bool
) -> None:
    checkpoint = a_live_patient(world)
    flip_under_its_checksum(checkpoint.root / "state/0/1/6.delta")
    ship(world, checkpoint)
    found = {one.kind: one for one in diagnosed(world, CLICKS, deep=deep).findings}
    assert set(found) == {Kind.STATE_FILE, Kind.SHIPPED_DAMAGED}
    assert found[Kind.SHIPPED_DAMAGED].where == f"snapshot {snapshot_id(5)}"
    (restart,) = found[Kind.STATE_FILE].repairs
    assert snapshot_id(3) in restart.does
    assert repaired(world, Mend.RESTART_PRIMARY, deep=deep) == ["SetAsideSnapshots", "EndPrimary"]
    restored = world.vault(CLICKS).restore_newest(checkpoint.root / "restored")
    assert restored is not None
    assert restored.manifest.id == snapshot_id(3)


def test_a_rocksdb_table_that_is_gone_is_found(world: SimulatedWorld) -> None:
    checkpoint = a_live_patient(world, kind=StateKind.ROCKSDB)
    max((checkpoint.root / "state/0/0/SSTs").glob("*.sst")).unlink()
    (found,) = diagnosed(world, CLICKS).findings
    assert found.kind is Kind.STATE_FILE
    assert "it is missing, and 6.zip needs it" in found.evidence


def test_what_is_only_in_flight_is_not_claimed(
    world: SimulatedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = a_live_patient(world)
    hidden = (checkpoint.root / "offsets/2").rename(checkpoint.root / "offsets/.2")

    def come_back(_: float) -> None:
        hidden.rename(checkpoint.root / "offsets/2")

    monkeypatch.setattr(
        "holdfast.resources.clock.SystemClock.sleep", lambda _, seconds: come_back(seconds)
    )
    assert kinds(world) == []


def test_a_stream_that_is_wanted_is_brought_back_with_another_primary(
    world: SimulatedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = a_live_patient(world)
    world.store.streams.desire(CLICKS, DesiredState.RUNNING)
    (checkpoint.root / "metadata").unlink()
    with simulated_drivers(world, monkeypatch) as drivers:
        steps = Repair(world, CLICKS, RUN, chosen=None, keep_alive=drivers.act).steps()
        ended, brought_back = list(steps)
        seen = examine(world, CLICKS)
    assert (ended.name, brought_back.name) == ("EndPrimary", "BringBack")
    assert isinstance(brought_back.result, InnerSteps)
    assert [inner.name for inner in brought_back.result.done] == ["Launch"]
    assert seen.primary not in (None, REPLICA)
    assert diagnose(seen) == []
    lines = world.store.journal.of(CLICKS, run=RUN)
    assert {line.playbook for line in lines} == {"repair"}
