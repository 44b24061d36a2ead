"""Reading snapshots and catalogue: each damage is found, alone, repaired, and the repair undone."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.ft_policies.doctor.findings import FindingKind as Kind, RepairKind as Mend
from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.snapshots import RetentionPolicy
from holdfast.observation.doctor.examine import diagnose_stream
from holdfast.orchestration.playbooks.repair.quarantine import Quarantine, list_quarantined_runs
from holdfast.orchestration.playbooks.repair.repair import Repair
from holdfast.resources.control_store.records import SnapshotState
from tests.builders.doctor_stream import (
    RUN,
    a_stopped_stream,
    doctor_projects,
    everything,
    finding_kinds,
    manifest_key,
    pack_key,
    run_repair,
    snapshot_id,
)
from tests.builders.streams import CLICKS
from tests.fakes.projects import SimulatedProject


@pytest.fixture
def project(tmp_path: Path) -> Iterator[SimulatedProject]:
    with doctor_projects(tmp_path / "project").open() as opened:
        yield opened


def lose_newest_pack(project: SimulatedProject) -> None:
    project.objects.delete([pack_key(project, 3)])


def cut_newest_pack(project: SimulatedProject) -> None:
    project.objects.truncate(pack_key(project, 3), 10)


def flip_newest_pack(project: SimulatedProject) -> None:
    project.objects.damage(pack_key(project, 3), 10)


def garble_newest_manifest(project: SimulatedProject) -> None:
    project.objects.truncate(manifest_key(3), 10)


SNAPSHOT_DAMAGES = {
    lose_newest_pack: Kind.PACK_GONE,
    cut_newest_pack: Kind.PACK_DAMAGED,
    flip_newest_pack: Kind.PACK_DAMAGED,
    garble_newest_manifest: Kind.MANIFEST_UNREADABLE,
}


@pytest.mark.parametrize("damage", list(SNAPSHOT_DAMAGES))
def test_a_damaged_snapshot_is_set_aside_and_can_be_put_back(
    project: SimulatedProject, tmp_path: Path, damage: Callable[[SimulatedProject], None]
) -> None:
    a_stopped_stream(project, tmp_path / "checkpoint")
    damage(project)
    before = everything(project)
    (finding,) = diagnose_stream(project, CLICKS, deep=True).findings
    assert (finding.kind, finding.where) == (SNAPSHOT_DAMAGES[damage], f"snapshot {snapshot_id(3)}")
    assert finding.repairs[0].cost.epochs_replayed == 2

    assert run_repair(project, deep=True) == ["SetAsideSnapshots"]

    assert finding_kinds(project, deep=True) == []
    assert [snapshot.epoch for snapshot in project.vault(CLICKS).list()] == [1]
    assert project.vault(CLICKS).restore_newest(tmp_path / "restored") is not None
    row = project.store.snapshots.get(CLICKS, snapshot_id(3))
    assert row is not None
    assert (row.state, row.reason) == (SnapshotState.DAMAGED, f"set aside by {RUN}")
    Quarantine(project, CLICKS, RUN).undo()
    assert everything(project) == before
    assert list_quarantined_runs(project, CLICKS) == []


def test_a_wrong_digest_needs_a_deep_look(project: SimulatedProject, tmp_path: Path) -> None:
    a_stopped_stream(project, tmp_path / "checkpoint")
    flip_newest_pack(project)
    assert finding_kinds(project) == []


def test_with_no_good_snapshot_the_state_is_rebuilt(
    project: SimulatedProject, tmp_path: Path
) -> None:
    a_stopped_stream(project, tmp_path / "checkpoint")
    project.objects.delete([pack_key(project, 1)])
    project.objects.delete([manifest_key(3)])
    project.store.snapshots.mark(CLICKS, snapshot_id(3), SnapshotState.DROPPED, "retention")
    assert finding_kinds(project) == [Kind.PACK_GONE, Kind.NO_SNAPSHOT]
    assert run_repair(project, Mend.REBUILD_STATE) == ["SetAsideSnapshots"]
    assert finding_kinds(project) == []
    assert project.vault(CLICKS).restore_newest(tmp_path / "restored") is None


def test_what_was_confirmed_is_gone(project: SimulatedProject, tmp_path: Path) -> None:
    a_stopped_stream(project, tmp_path / "checkpoint")
    cut_newest_pack(project)
    run_repair(project)
    Quarantine(project, CLICKS, RUN).confirm()
    assert not any("aside" in key for key in project.objects.objects)
    assert not any(snapshot_id(3) in key for key in project.objects.objects)
    assert finding_kinds(project, deep=True) == []


def test_packs_that_a_good_snapshot_names_stay(project: SimulatedProject, tmp_path: Path) -> None:
    a_stopped_stream(project, tmp_path / "checkpoint")
    garble_newest_manifest(project)
    run_repair(project)
    assert pack_key(project, 1) in project.objects.objects


def test_retention_keeps_what_putting_a_snapshot_back_needs(
    project: SimulatedProject, tmp_path: Path
) -> None:
    a_stopped_stream(project, tmp_path / "checkpoint")
    vault = project.vault(CLICKS)
    key, body = pack_key(project, 3), project.objects.get(pack_key(project, 3))
    lose_newest_pack(project)
    run_repair(project)
    project.objects.delete([manifest_key(1)])  # by retention: no other manifest names its pack
    project.objects.now += 7200
    assert vault.prune(RetentionPolicy(last=1)).packs_deleted == []
    Quarantine(project, CLICKS, RUN).undo()
    project.objects.put(key, body)
    assert vault.verify(snapshot_id(3)) == []


def test_what_was_confirmed_keeps_no_pack(project: SimulatedProject, tmp_path: Path) -> None:
    a_stopped_stream(project, tmp_path / "checkpoint")
    lose_newest_pack(project)
    run_repair(project)
    Quarantine(project, CLICKS, RUN).confirm()
    project.objects.delete([manifest_key(1)])
    project.objects.now += 7200
    pruned = project.vault(CLICKS).prune(RetentionPolicy(last=1))
    assert len(pruned.packs_deleted) == 1


def test_a_snapshot_that_the_catalogue_lacks_is_entered(
    project: SimulatedProject, tmp_path: Path
) -> None:
    a_stopped_stream(project, tmp_path / "checkpoint")
    was = project.store.snapshots.get(CLICKS, snapshot_id(3))
    project.store.snapshots.forget(CLICKS, snapshot_id(3))
    before = everything(project)
    assert finding_kinds(project) == [Kind.MANIFEST_WITHOUT_ROW]
    assert run_repair(project) == ["EnterSnapshots"]
    assert project.store.snapshots.get(CLICKS, snapshot_id(3)) == was
    assert finding_kinds(project) == []
    Quarantine(project, CLICKS, RUN).undo()
    assert everything(project) == before


def test_a_row_without_a_manifest_is_marked(project: SimulatedProject, tmp_path: Path) -> None:
    a_stopped_stream(project, tmp_path / "checkpoint")
    project.objects.delete([manifest_key(3)])
    before = everything(project)
    assert finding_kinds(project) == [Kind.ROW_WITHOUT_MANIFEST]
    assert run_repair(project) == ["MarkSnapshots"]
    assert finding_kinds(project) == []
    Quarantine(project, CLICKS, RUN).undo()
    assert everything(project) == before


def test_lost_snapshots_can_be_given_up_so_that_a_start_replays_everything(
    project: SimulatedProject, tmp_path: Path
) -> None:
    a_stopped_stream(project, tmp_path / "checkpoint")
    project.objects.objects.clear()
    assert Kind.ROW_WITHOUT_MANIFEST in finding_kinds(project)
    assert run_repair(project, Mend.MARK_SNAPSHOTS) == ["MarkSnapshots"]
    assert project.store.snapshots.newest(CLICKS) is None


def test_a_repair_that_mends_nothing_is_refused_with_what_is_offered(
    project: SimulatedProject, tmp_path: Path
) -> None:
    a_stopped_stream(project, tmp_path / "checkpoint")
    lose_newest_pack(project)
    with pytest.raises(PermanentError, match="repairs none of the findings of clicks") as refused:
        Repair(project, CLICKS, "plan", chosen=Mend.SHIP_SNAPSHOT).plan()
    assert refused.value.hint == "choose one of the offered repairs: set_aside_snapshots"
