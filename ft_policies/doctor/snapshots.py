"""What is wrong with a stream's snapshots, and with what the catalogue says of them."""

from collections.abc import Iterator, Sequence

from holdfast.ft_policies.doctor.facts import Examined, Fault, SnapshotFacts
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

SHOWN_FAULTS = 3
UNDO = "--undo puts them back, until --confirm deletes them"


def place_of(snapshot: str) -> str:
    """Where a finding about a snapshot is."""
    return f"snapshot {snapshot}"


def snapshot_findings(seen: Examined) -> Iterator[Finding]:
    """All that is wrong with manifests, packs and catalogue."""
    for one in seen.snapshots:
        if not one.good:
            yield _unusable(seen, one)
        elif not one.catalogued:
            yield _without_row(one)
    for snapshot in seen.without_manifest:
        yield _without_manifest(snapshot)
    if seen.newest_good is None and (seen.snapshots or seen.without_manifest):
        yield _no_snapshot(seen)


def _unusable(seen: Examined, one: SnapshotFacts) -> Finding:
    kind, evidence = _fault(one)
    none_left = seen.newest_good is None
    return Finding(
        kind=kind,
        severity=Severity.CRITICAL if none_left else Severity.WARNING,
        where=place_of(one.id),
        evidence=evidence,
        repairs=(_set_aside(seen, one),),
    )


def _fault(one: SnapshotFacts) -> tuple[FindingKind, str]:
    if one.unreadable:
        return FindingKind.MANIFEST_UNREADABLE, one.unreadable
    if one.lost_packs:
        return FindingKind.PACK_GONE, "not in the object store: " + ", ".join(one.lost_packs)
    if one.pack_faults:
        return FindingKind.PACK_DAMAGED, _told(one.pack_faults)
    told = f"as it is on the disk of {one.replica}: {_told(one.state_faults)}"
    return FindingKind.SHIPPED_DAMAGED, told


def _told(faults: Sequence[Fault]) -> str:
    told = [f"{fault.path}: {fault.reason}" for fault in faults[:SHOWN_FAULTS]]
    more = len(faults) - len(told)
    return "; ".join(told) + (f"; and {more} more" if more else "")


def _set_aside(seen: Examined, one: SnapshotFacts) -> Repair:
    does = "sets it aside, so that a restore takes the one before at once"
    if one.replica == seen.primary and not one.state_faults:
        does += "; the next one that the primary ships is whole again"
    return Repair(
        kind=RepairKind.SET_ASIDE_SNAPSHOTS, does=does, cost=extra_replay(seen, one), undo=UNDO
    )


def _without_row(one: SnapshotFacts) -> Finding:
    return Finding(
        kind=FindingKind.MANIFEST_WITHOUT_ROW,
        severity=Severity.NOTE,
        where=place_of(one.id),
        evidence="its manifest can be read, and the catalogue has no row of it",
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
        evidence="the catalogue has it as available, and there is no such manifest",
        repairs=(
            Repair(
                kind=RepairKind.MARK_SNAPSHOTS,
                does="marks it as damaged in the catalogue",
                undo="--undo marks it as it was",
            ),
        ),
    )


def _no_snapshot(seen: Examined) -> Finding:
    told = "the source still has all of their input"
    if seen.lost_input:
        told = "and input of them is lost"
    elif seen.source_away:
        told = "and input of them may be lost"
    return Finding(
        kind=FindingKind.NO_SNAPSHOT,
        severity=Severity.WARNING if seen.may_replay else Severity.CRITICAL,
        where="object store",
        evidence=f"{seen.records.last_decided + 1} epochs with {seen.rows_in_all} rows would be "
        f"replayed; {told}",
        repairs=_without_snapshot(seen),
        advice=_from_elsewhere(seen),
    )


def _from_elsewhere(seen: Examined) -> tuple[Advice, ...]:
    """What helps if somebody keeps a copy of the object store."""
    newest = next(iter(seen.snapshots), None)
    if newest is None:
        return ()
    restore = Advice(
        command=f"holdfast restore {seen.stream} --snapshot {newest.id} --from s3://BUCKET/PREFIX",
        does="takes that snapshot from a copy of the object store, if there is one, and the stream "
        f"back to epoch {newest.epoch}; the epochs after it are computed and put out again",
        cost=replay_from(seen, newest),
    )
    return (restore,)


def _without_snapshot(seen: Examined) -> tuple[Repair, ...]:
    """A live primary still has the state; without one the epoch log has it, if the source has."""
    ship = () if seen.primary is None else (ship_snapshot(),)
    if not seen.may_replay:
        return ship
    rebuild = Repair(
        kind=RepairKind.REBUILD_STATE,
        does="sets the unusable snapshots aside and rebuilds the state from the epoch log alone: the "
        "next start replays every epoch, and puts none out twice",
        cost=replay_from(seen, None),
        undo=UNDO,
    )
    return (*ship, rebuild)


def ship_snapshot() -> Repair:
    """What helps while a primary still has the state."""
    return Repair(
        kind=RepairKind.SHIP_SNAPSHOT,
        does="has the live primary ship a snapshot now: then nothing before it is read again",
        undo="nothing to undo: a snapshot more does no harm",
    )
