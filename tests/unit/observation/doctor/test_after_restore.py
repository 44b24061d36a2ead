"""What a restore has superseded is no damage: the doctor finds a stream well that was taken back or forked."""

from pathlib import Path

import pytest

from holdfast.ft_policies.doctor.findings import FindingKind, RepairKind, Severity
from holdfast.ft_policies.errors import PermanentError
from holdfast.observation.doctor.examine import diagnose_stream
from holdfast.orchestration.playbooks.repair.repair import Repair
from holdfast.orchestration.playbooks.restore.fork import Fork
from holdfast.orchestration.playbooks.restore.point import RestoreTarget
from holdfast.orchestration.playbooks.restore.restore import Restore
from holdfast.resources.control_store.schema import ledger, ledger_copies
from tests.builders.doctor_stream import (
    a_stopped_stream,
    delete_epoch,
    doctor_projects,
    everything,
    finding_kinds,
    run_repair,
)
from tests.builders.streams import CLICKS

BEFORE = 3


def test_a_stream_that_was_restored_in_place_is_well(tmp_path: Path) -> None:
    with doctor_projects(tmp_path).open() as project:
        a_stopped_stream(project, tmp_path / "checkpoint")
        assert diagnose_stream(project, CLICKS, deep=True).findings == []
        for epoch in (BEFORE + 1, BEFORE):
            list(Restore(project, CLICKS, "run", target=RestoreTarget(epoch=epoch), why="").steps())
            assert diagnose_stream(project, CLICKS, deep=True).findings == []
        delete_epoch(project.store, ledger_copies, BEFORE - 1)
        delete_epoch(project.store, ledger, BEFORE - 1)
        assert finding_kinds(project) == [FindingKind.WRITTEN_NOT_ENTERED]
        assert run_repair(project) == ["EnterEpochs"]
        assert diagnose_stream(project, CLICKS, deep=True).findings == []


def test_a_stream_that_is_half_restored_has_one_finding_and_no_repair_touches_it(
    tmp_path: Path,
) -> None:
    with doctor_projects(tmp_path).open() as project:
        a_stopped_stream(project, tmp_path / "checkpoint")
        for step in Restore(
            project, CLICKS, "run", target=RestoreTarget(epoch=BEFORE), why=""
        ).steps():
            if step.name == "BeginHistory":
                break
        before = everything(project)
        (finding,) = diagnose_stream(project, CLICKS, deep=True).findings
        assert (finding.kind, finding.severity) == (FindingKind.HALF_RESTORED, Severity.CRITICAL)
        assert f"run `holdfast restore {CLICKS}` to finish it" in finding.evidence
        assert run_repair(project) == []
        with pytest.raises(PermanentError, match="repairs none of the findings"):
            Repair(project, CLICKS, "plan", chosen=RepairKind.ENTER_EPOCHS).plan()
        assert everything(project) == before
        list(Restore(project, CLICKS, "run", target=RestoreTarget(epoch=BEFORE), why="").steps())
        assert diagnose_stream(project, CLICKS, deep=True).findings == []


def test_a_snapshot_is_entered_into_the_catalogue_with_its_history(tmp_path: Path) -> None:
    with doctor_projects(tmp_path).open() as project:
        checkpoint = a_stopped_stream(project, tmp_path / "checkpoint")
        list(Restore(project, CLICKS, "run", target=RestoreTarget(epoch=BEFORE), why="").steps())
        shipped = project.vault(CLICKS).ship(
            checkpoint.root,
            BEFORE + 1,
            token=9,
            replica="clicks-0000000b",
            parent=None,
            conf={},
            created_at=project.store.now(),
            scratch=tmp_path / "scratch",
            history=1,
        )
        assert run_repair(project) == ["EnterSnapshots"]
        row = project.store.snapshots.get(CLICKS, shipped.manifest.id)
        assert row is not None
        assert row.history == 1


def test_a_fork_is_well_and_so_is_its_original(tmp_path: Path) -> None:
    projects = doctor_projects(tmp_path)
    with projects.open() as project:
        a_stopped_stream(project, tmp_path / "checkpoint")
        list(Fork(project, CLICKS, "run", target=RestoreTarget(epoch=BEFORE), into="tried").steps())
    with projects.open() as project:
        assert diagnose_stream(project, CLICKS, deep=True).findings == []
        assert diagnose_stream(project, "tried", deep=True).findings == []
