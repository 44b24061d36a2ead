"""Findings about the snapshots of a stream and their rows in the catalogue."""

from collections.abc import Iterator, Sequence

from holdfast.ft_policies.doctor.facts import Damage, ExaminedStream, SnapshotFacts
from holdfast.ft_policies.doctor.findings import (
    Advice,
    Finding,
    FindingKind,
    Repair,
    RepairKind,
    Severity,
    extra_replay,
    replay_from,
)

SHOWN_DAMAGE = 3
UNDO = "--undo puts them back, until --confirm deletes them"


def place_of(snapshot: str) -> str:
    """The location of a finding about a snapshot."""
    return f"snapshot {snapshot}"


def snapshot_findings(examined: ExaminedStream) -> Iterator[Finding]:
    """Damage of manifests and packs, and disagreements with the catalogue."""
    for snapshot in examined.snapshots:
        if not snapshot.good:
            yield _unusable(examined, snapshot)
        elif not snapshot.catalogued:
            yield _without_row(snapshot)
    for snapshot_id in examined.without_manifest:
        yield _without_manifest(snapshot_id)
    if examined.newest_good is None and (examined.snapshots or examined.without_manifest):
        yield _no_snapshot(examined)


def _unusable(examined: ExaminedStream, snapshot: SnapshotFacts) -> Finding:
    kind, evidence = _diagnose_damage(snapshot)
    none_left = examined.newest_good is None
    return Finding(
        kind=kind,
        severity=Severity.CRITICAL if none_left else Severity.WARNING,
        where=place_of(snapshot.id),
        evidence=evidence,
        repairs=(_set_aside(examined, snapshot),),
    )


def _diagnose_damage(snapshot: SnapshotFacts) -> tuple[FindingKind, str]:
    if snapshot.unreadable:
        return FindingKind.MANIFEST_UNREADABLE, snapshot.unreadable
    if snapshot.lost_packs:
        return FindingKind.PACK_GONE, "missing in the object store: " + ", ".join(
            snapshot.lost_packs
        )
    if snapshot.pack_damage:
        return FindingKind.PACK_DAMAGED, _format_damage(snapshot.pack_damage)
    damaged = _format_damage(snapshot.state_damage)
    return FindingKind.SHIPPED_DAMAGED, f"damaged on the disk of {snapshot.replica}: {damaged}"


def _format_damage(damaged: Sequence[Damage]) -> str:
    shown = [f"{damage.path}: {damage.reason}" for damage in damaged[:SHOWN_DAMAGE]]
    more = len(damaged) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more else "")


def _set_aside(examined: ExaminedStream, snapshot: SnapshotFacts) -> Repair:
    does = "sets it aside, so that a restore uses the one before without trying this one"
    if snapshot.replica == examined.primary and not snapshot.state_damage:
        does += "; the next snapshot of the primary will be complete again"
    return Repair(
        kind=RepairKind.SET_ASIDE_SNAPSHOTS,
        does=does,
        cost=extra_replay(examined, snapshot),
        undo=UNDO,
    )


def _without_row(snapshot: SnapshotFacts) -> Finding:
    return Finding(
        kind=FindingKind.MANIFEST_WITHOUT_ROW,
        severity=Severity.NOTE,
        where=place_of(snapshot.id),
        evidence="its manifest is readable, but the catalogue has no row for it",
        repairs=(
            Repair(
                kind=RepairKind.ENTER_SNAPSHOTS,
                does="enters it into the catalogue, from its manifest",
                undo="--undo removes the row",
            ),
        ),
    )


def _without_manifest(snapshot: str) -> Finding:
    return Finding(
        kind=FindingKind.ROW_WITHOUT_MANIFEST,
        severity=Severity.WARNING,
        where=place_of(snapshot),
        evidence="it is available in the catalogue, but its manifest is missing",
        repairs=(
            Repair(
                kind=RepairKind.MARK_SNAPSHOTS,
                does="marks it as damaged in the catalogue",
                undo="--undo restores its mark",
            ),
        ),
    )


def _no_snapshot(examined: ExaminedStream) -> Finding:
    source = "the source still has all of their input"
    if examined.is_cut_off:
        source = f"those before epoch {examined.records.first_kept} are pruned and cannot be"
    elif examined.lost_input:
        source = "some of their input is lost"
    elif examined.source_away:
        source = "some of their input may be lost"
    return Finding(
        kind=FindingKind.NO_SNAPSHOT,
        severity=Severity.WARNING if examined.may_replay else Severity.CRITICAL,
        where="object store",
        evidence=f"{examined.records.last_decided + 1} epochs with {examined.rows_in_all} rows would be "
        f"replayed; {source}",
        repairs=_without_snapshot(examined),
        advice=_from_elsewhere(examined),
    )


def _from_elsewhere(examined: ExaminedStream) -> tuple[Advice, ...]:
    """A restore from a copy of the object store, in case the operator keeps one."""
    newest = next(iter(examined.snapshots), None)
    if newest is None:
        return ()
    restore = Advice(
        command=f"holdfast restore {examined.stream} --snapshot {newest.id} --from s3://BUCKET/PREFIX",
        does="restores the snapshot from a copy of the object store, if there is one, and rolls the "
        f"stream back to epoch {newest.epoch}; later epochs are computed again",
        cost=replay_from(examined, newest),
    )
    return (restore,)


def _without_snapshot(examined: ExaminedStream) -> tuple[Repair, ...]:
    """A live primary still has the state; without one it can be rebuilt while the source has the input."""
    ship = () if examined.primary is None else (ship_snapshot(),)
    if not examined.may_replay:
        return ship
    rebuild = Repair(
        kind=RepairKind.REBUILD_STATE,
        does="sets the unusable snapshots aside and rebuilds the state from the epoch log alone: the "
        "next start replays every epoch, and writes no output twice",
        cost=replay_from(examined, None),
        undo=UNDO,
    )
    return (*ship, rebuild)


def ship_snapshot() -> Repair:
    """The repair while a live primary still has the state."""
    return Repair(
        kind=RepairKind.SHIP_SNAPSHOT,
        does="has the live primary ship a snapshot now, so that no earlier input is needed again",
        undo="nothing to undo: an extra snapshot does no harm",
    )
