"""Reading a live checkpoint: each damage is found, alone, and its primary is ended."""

import shutil
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.ft_policies.doctor.diagnosis import diagnose
from holdfast.ft_policies.doctor.findings import FindingKind as Kind, RepairKind as Mend, Severity
from holdfast.observation.doctor.examine import diagnose_stream, examine
from holdfast.orchestration.playbooks.base import InnerSteps
from holdfast.orchestration.playbooks.repair.quarantine import Quarantine
from holdfast.orchestration.playbooks.repair.repair import Repair
from holdfast.resources.control_store.records import DesiredState, ReplicaState
from tests.builders.checkpoints import StateKind
from tests.builders.doctor_stream import (
    REPLICA,
    RUN,
    a_stream_with_live_primary,
    doctor_projects,
    everything,
    finding_kinds,
    replica_row,
    run_repair,
    ship,
    shorten,
    snapshot_id,
)
from tests.builders.streams import CLICKS
from tests.builders.vaults import tree
from tests.fakes.clocks import SleeplessClock
from tests.fakes.drivers import simulated_drivers
from tests.fakes.projects import SimulatedProject


@pytest.fixture
def project(tmp_path: Path) -> Iterator[SimulatedProject]:
    with doctor_projects(tmp_path / "project").open() as opened:
        yield opened


@pytest.mark.parametrize("kind", [StateKind.HDFS, StateKind.ROCKSDB])
def test_nothing_is_found_in_a_stream_that_is_well(
    project: SimulatedProject, kind: StateKind
) -> None:
    a_stream_with_live_primary(project, kind=kind)
    before = everything(project)
    assert finding_kinds(project, deep=True) == []
    assert everything(project) == before


def test_nothing_is_found_in_a_stream_that_never_ran(project: SimulatedProject) -> None:
    assert finding_kinds(project, deep=True) == []


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
    project: SimulatedProject, damage: str
) -> None:
    checkpoint = a_stream_with_live_primary(project)
    act, kind = CHECKPOINT_DAMAGES[damage]
    act(checkpoint.root)
    (finding,) = diagnose_stream(project, CLICKS).findings
    assert (finding.kind, finding.where) == (kind, str(checkpoint.root))
    assert finding.severity is not Severity.NOTE

    assert run_repair(project) == ["EndPrimary"]

    assert replica_row(project).state is ReplicaState.FENCED
    (left,) = diagnose_stream(project, CLICKS).findings
    assert (left.kind, left.severity) == (kind, Severity.NOTE)
    assert examine(project, CLICKS).ended_by_doctor


@pytest.mark.parametrize("elsewhere", [True, False])
def test_the_checkpoint_of_a_primary_that_was_ended_is_kept_until_it_is_confirmed(
    tmp_path: Path, *, elsewhere: bool
) -> None:
    folder = {"resources": {"folder": str(tmp_path / "disk")}} if elsewhere else {}
    with doctor_projects(tmp_path / "project", **folder).open() as project:
        replicas = tmp_path / "disk" if elsewhere else project.config.home / "replicas"
        checkpoint = a_stream_with_live_primary(project, replicas=replicas)
        (checkpoint.root / "metadata").unlink()
        before = tree(checkpoint.root)
        assert run_repair(project) == ["EndPrimary"]
        assert tree(checkpoint.root) == before, "its process may still be there"
        for decide in (Quarantine.undo, Quarantine.confirm):
            shutil.rmtree(checkpoint.root)  # as the next start does
            decide(Quarantine(project, CLICKS, RUN))
            assert checkpoint.root.exists() is (decide is Quarantine.undo)
            if decide is Quarantine.undo:
                assert tree(checkpoint.root) == before
                Quarantine(project, CLICKS, RUN).keep_folder(checkpoint.root, below=replicas)
        assert not list(tmp_path.glob(f"**/aside/{RUN}"))


def test_a_changed_byte_of_shipped_state_needs_a_deep_look(project: SimulatedProject) -> None:
    checkpoint = a_stream_with_live_primary(project)
    file = checkpoint.root / "state/0/1/4.delta"
    body = bytearray(file.read_bytes())
    body[0] ^= 0xFF
    file.write_bytes(bytes(body))
    assert finding_kinds(project) == []
    assert finding_kinds(project, deep=True) == [Kind.STATE_FILE]


def flip_under_its_checksum(file: Path) -> None:
    """Change a byte of a file that has its checksum beside it, as Hadoop writes it."""
    body = bytearray(file.read_bytes())
    sums = b"crc\0" + (512).to_bytes(4, "big") + zlib.crc32(body).to_bytes(4, "big")
    file.with_name(f".{file.name}.crc").write_bytes(sums)
    body[0] ^= 0xFF
    file.write_bytes(bytes(body))


@pytest.mark.parametrize("deep", [False, True])
def test_a_snapshot_that_was_shipped_with_the_damage_is_not_what_the_next_primary_restores(
    project: SimulatedProject, *, deep: bool
) -> None:
    checkpoint = a_stream_with_live_primary(project)
    flip_under_its_checksum(checkpoint.root / "state/0/1/6.delta")
    ship(project, checkpoint)
    findings = {
        finding.kind: finding for finding in diagnose_stream(project, CLICKS, deep=deep).findings
    }
    assert set(findings) == {Kind.STATE_FILE, Kind.SHIPPED_DAMAGED}
    assert findings[Kind.SHIPPED_DAMAGED].where == f"snapshot {snapshot_id(5)}"
    (restart,) = findings[Kind.STATE_FILE].repairs
    assert snapshot_id(3) in restart.does
    assert run_repair(project, Mend.RESTART_PRIMARY, deep=deep) == [
        "SetAsideSnapshots",
        "EndPrimary",
    ]
    restored = project.vault(CLICKS).restore_newest(checkpoint.root / "restored")
    assert restored is not None
    assert restored.manifest.id == snapshot_id(3)


def test_a_rocksdb_table_that_is_gone_is_found(project: SimulatedProject) -> None:
    checkpoint = a_stream_with_live_primary(project, kind=StateKind.ROCKSDB)
    max((checkpoint.root / "state/0/0/SSTs").glob("*.sst")).unlink()
    (finding,) = diagnose_stream(project, CLICKS).findings
    assert finding.kind is Kind.STATE_FILE
    assert "it is missing, and 6.zip needs it" in finding.evidence


def test_what_is_only_in_flight_is_not_claimed(project: SimulatedProject) -> None:
    checkpoint = a_stream_with_live_primary(project)
    hidden = (checkpoint.root / "offsets/2").rename(checkpoint.root / "offsets/.2")

    def come_back() -> None:
        hidden.rename(checkpoint.root / "offsets/2")

    assert finding_kinds(replace(project, clock=SleeplessClock(come_back))) == []


def test_a_stream_that_is_wanted_is_brought_back_with_another_primary(
    project: SimulatedProject,
) -> None:
    checkpoint = a_stream_with_live_primary(project)
    project.store.streams.desire(CLICKS, DesiredState.RUNNING)
    (checkpoint.root / "metadata").unlink()
    with simulated_drivers(project) as drivers:
        steps = Repair(project, CLICKS, RUN, chosen=None, keep_alive=drivers.act).steps()
        ended, brought_back = list(steps)
        examined = examine(project, CLICKS)
    assert (ended.name, brought_back.name) == ("EndPrimary", "BringBack")
    assert isinstance(brought_back.result, InnerSteps)
    assert [inner.name for inner in brought_back.result.done] == ["Launch"]
    assert examined.primary not in (None, REPLICA)
    assert diagnose(examined) == []
    lines = project.store.journal.of(CLICKS, run=RUN)
    assert {line.playbook for line in lines} == {"repair"}
