"""What a restore has superseded is no damage: the doctor finds a stream well that was taken back or forked."""

from pathlib import Path

import pytest

from holdfast.ft_policies.doctor.findings import FindingKind, RepairKind, Severity
from holdfast.ft_policies.errors import PermanentError
from holdfast.observation.doctor.examine import diagnosed
from holdfast.orchestration.playbooks.repair.repair import Repair
from holdfast.orchestration.playbooks.restore.fork import Fork
from holdfast.orchestration.playbooks.restore.point import RestoreTarget
from holdfast.orchestration.playbooks.restore.restore import Restore
from holdfast.resources.control_store.schema import ledger, ledger_copies
from tests.fakes.worlds import CLICKS
from tests.support.patients import a_patient, delete_epoch, everything, kinds, patients, repaired

BEFORE = 3


def test_a_stream_that_was_restored_in_place_is_well(tmp_path: Path) -> None:
    with patients(tmp_path).open() as world:
        a_patient(world, tmp_path / "checkpoint")
        assert diagnosed(world, CLICKS, deep=True).findings == []
        for epoch in (BEFORE + 1, BEFORE):
            list(Restore(world, CLICKS, "run", target=RestoreTarget(epoch=epoch), why="").steps())
            assert diagnosed(world, CLICKS, deep=True).findings == []
        delete_epoch(world.store, ledger_copies, BEFORE - 1)
        delete_epoch(world.store, ledger, BEFORE - 1)
        assert kinds(world) == [FindingKind.WRITTEN_NOT_ENTERED]
        assert repaired(world) == ["EnterEpochs"]
        assert diagnosed(world, CLICKS, deep=True).findings == []


def test_a_stream_that_is_half_restored_has_one_finding_and_no_repair_touches_it(
    tmp_path: Path,
) -> None:
    with patients(tmp_path).open() as world:
        a_patient(world, tmp_path / "checkpoint")
        for step in Restore(
            world, CLICKS, "run", target=RestoreTarget(epoch=BEFORE), why=""
        ).steps():
            if step.name == "BeginHistory":
                break
        before = everything(world)
        (found,) = diagnosed(world, CLICKS, deep=True).findings
        assert (found.kind, found.severity) == (FindingKind.HALF_RESTORED, Severity.CRITICAL)
        assert f"`holdfast restore {CLICKS}` finishes it" in found.evidence
        assert repaired(world) == []
        with pytest.raises(PermanentError, match="nothing that was found"):
            Repair(world, CLICKS, "plan", chosen=RepairKind.ENTER_EPOCHS).plan()
        assert everything(world) == before
        list(Restore(world, CLICKS, "run", target=RestoreTarget(epoch=BEFORE), why="").steps())
        assert diagnosed(world, CLICKS, deep=True).findings == []


def test_a_snapshot_is_entered_into_the_catalogue_with_its_history(tmp_path: Path) -> None:
    with patients(tmp_path).open() as world:
        checkpoint = a_patient(world, tmp_path / "checkpoint")
        list(Restore(world, CLICKS, "run", target=RestoreTarget(epoch=BEFORE), why="").steps())
        shipped = world.vault(CLICKS).ship(
            checkpoint.root,
            BEFORE + 1,
            token=9,
            replica="clicks-0000000b",
            parent=None,
            conf={},
            created_at=world.store.now(),
            scratch=tmp_path / "scratch",
            history=1,
        )
        assert repaired(world) == ["EnterSnapshots"]
        row = world.store.snapshots.get(CLICKS, shipped.manifest.id)
        assert row is not None
        assert row.history == 1


def test_a_fork_is_well_and_so_is_its_original(tmp_path: Path) -> None:
    worlds = patients(tmp_path)
    with worlds.open() as world:
        a_patient(world, tmp_path / "checkpoint")
        list(Fork(world, CLICKS, "run", target=RestoreTarget(epoch=BEFORE), into="tried").steps())
    with worlds.open() as world:
        assert diagnosed(world, CLICKS, deep=True).findings == []
        assert diagnosed(world, "tried", deep=True).findings == []
