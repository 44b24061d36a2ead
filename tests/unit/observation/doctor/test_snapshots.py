"""Reading snapshots and catalogue: each damage is found, alone, repaired, and the repair undone."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.ft_policies.doctor.findings import FindingKind as Kind, RepairKind as Mend
from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.snapshots import RetentionPolicy
from holdfast.observation.doctor.examine import diagnose_stream
from holdfast.orchestration.playbooks.repair.quarantine import Quarantine, quarantined_runs
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
def world(tmp_path: Path) -> Iterator[SimulatedProject]:
    with doctor_projects(tmp_path / "project").open() as opened:
        yield opened


def lose_newest_pack(world: SimulatedProject) -> None:
    world.objects.delete([pack_key(world, 3)])


def cut_newest_pack(world: SimulatedProject) -> None:
    world.objects.truncate(pack_key(world, 3), 10)


def flip_newest_pack(world: SimulatedProject) -> None:
    world.objects.damage(pack_key(world, 3), 10)


def garble_newest_manifest(world: SimulatedProject) -> None:
    world.objects.truncate(manifest_key(3), 10)


SNAPSHOT_DAMAGES = {
    lose_newest_pack: Kind.PACK_GONE,
    cut_newest_pack: Kind.PACK_DAMAGED,
    flip_newest_pack: Kind.PACK_DAMAGED,
    garble_newest_manifest: Kind.MANIFEST_UNREADABLE,
}


@pytest.mark.parametrize("damage", list(SNAPSHOT_DAMAGES))
def test_a_damaged_snapshot_is_set_aside_and_can_be_put_back(
    world: SimulatedProject, tmp_path: Path, damage: Callable[[SimulatedProject], None]
) -> None:
    a_stopped_stream(world, tmp_path / "checkpoint")
    damage(world)
    before = everything(world)
    (finding,) = diagnose_stream(world, CLICKS, deep=True).findings
    assert (finding.kind, finding.where) == (SNAPSHOT_DAMAGES[damage], f"snapshot {snapshot_id(3)}")
    assert finding.repairs[0].cost.epochs_replayed == 2

    assert run_repair(world, deep=True) == ["SetAsideSnapshots"]

    assert finding_kinds(world, deep=True) == []
    assert [snapshot.epoch for snapshot in world.vault(CLICKS).list()] == [1]
    assert world.vault(CLICKS).restore_newest(tmp_path / "restored") is not None
    row = world.store.snapshots.get(CLICKS, snapshot_id(3))
    assert row is not None
    assert (row.state, row.reason) == (SnapshotState.DAMAGED, f"set aside by {RUN}")
    Quarantine(world, CLICKS, RUN).undo()
    assert everything(world) == before
    assert quarantined_runs(world, CLICKS) == []


def test_a_wrong_digest_needs_a_deep_look(world: SimulatedProject, tmp_path: Path) -> None:
    a_stopped_stream(world, tmp_path / "checkpoint")
    flip_newest_pack(world)
    assert finding_kinds(world) == []


def test_with_no_good_snapshot_the_state_is_rebuilt(
    world: SimulatedProject, tmp_path: Path
) -> None:
    a_stopped_stream(world, tmp_path / "checkpoint")
    world.objects.delete([pack_key(world, 1)])
    world.objects.delete([manifest_key(3)])
    world.store.snapshots.mark(CLICKS, snapshot_id(3), SnapshotState.DROPPED, "retention")
    assert finding_kinds(world) == [Kind.PACK_GONE, Kind.NO_SNAPSHOT]
    assert run_repair(world, Mend.REBUILD_STATE) == ["SetAsideSnapshots"]
    assert finding_kinds(world) == []
    assert world.vault(CLICKS).restore_newest(tmp_path / "restored") is None


def test_what_was_confirmed_is_gone(world: SimulatedProject, tmp_path: Path) -> None:
    a_stopped_stream(world, tmp_path / "checkpoint")
    cut_newest_pack(world)
    run_repair(world)
    Quarantine(world, CLICKS, RUN).confirm()
    assert not any("aside" in key for key in world.objects.objects)
    assert not any(snapshot_id(3) in key for key in world.objects.objects)
    assert finding_kinds(world, deep=True) == []


def test_packs_that_a_good_snapshot_names_stay(world: SimulatedProject, tmp_path: Path) -> None:
    a_stopped_stream(world, tmp_path / "checkpoint")
    garble_newest_manifest(world)
    run_repair(world)
    assert pack_key(world, 1) in world.objects.objects


def test_retention_keeps_what_putting_a_snapshot_back_needs(
    world: SimulatedProject, tmp_path: Path
) -> None:
    a_stopped_stream(world, tmp_path / "checkpoint")
    vault, later = world.vault(CLICKS), world.objects.now + 7200
    key, body = pack_key(world, 3), world.objects.get(pack_key(world, 3))
    lose_newest_pack(world)
    run_repair(world)
    world.objects.delete([manifest_key(1)])  # by retention: no other manifest names its pack
    assert vault.prune(RetentionPolicy(last=1), now=later).packs_deleted == []
    Quarantine(world, CLICKS, RUN).undo()
    world.objects.put(key, body)
    assert vault.verify(snapshot_id(3)) == []


def test_what_was_confirmed_keeps_no_pack(world: SimulatedProject, tmp_path: Path) -> None:
    a_stopped_stream(world, tmp_path / "checkpoint")
    lose_newest_pack(world)
    run_repair(world)
    Quarantine(world, CLICKS, RUN).confirm()
    world.objects.delete([manifest_key(1)])
    pruned = world.vault(CLICKS).prune(RetentionPolicy(last=1), now=world.objects.now + 7200)
    assert len(pruned.packs_deleted) == 1


def test_a_snapshot_that_the_catalogue_lacks_is_entered(
    world: SimulatedProject, tmp_path: Path
) -> None:
    a_stopped_stream(world, tmp_path / "checkpoint")
    was = world.store.snapshots.get(CLICKS, snapshot_id(3))
    world.store.snapshots.forget(CLICKS, snapshot_id(3))
    before = everything(world)
    assert finding_kinds(world) == [Kind.MANIFEST_WITHOUT_ROW]
    assert run_repair(world) == ["EnterSnapshots"]
    assert world.store.snapshots.get(CLICKS, snapshot_id(3)) == was
    assert finding_kinds(world) == []
    Quarantine(world, CLICKS, RUN).undo()
    assert everything(world) == before


def test_a_row_without_a_manifest_is_marked(world: SimulatedProject, tmp_path: Path) -> None:
    a_stopped_stream(world, tmp_path / "checkpoint")
    world.objects.delete([manifest_key(3)])
    before = everything(world)
    assert finding_kinds(world) == [Kind.ROW_WITHOUT_MANIFEST]
    assert run_repair(world) == ["MarkSnapshots"]
    assert finding_kinds(world) == []
    Quarantine(world, CLICKS, RUN).undo()
    assert everything(world) == before


def test_a_repair_that_mends_nothing_is_refused_with_what_is_offered(
    world: SimulatedProject, tmp_path: Path
) -> None:
    a_stopped_stream(world, tmp_path / "checkpoint")
    lose_newest_pack(world)
    with pytest.raises(PermanentError, match="repairs none of the findings of clicks") as refused:
        Repair(world, CLICKS, "plan", chosen=Mend.SHIP_SNAPSHOT).plan()
    assert refused.value.hint == "choose one of the offered repairs: set_aside_snapshots"
