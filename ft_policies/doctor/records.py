"""Where epoch log, ledger, output table and source do not agree."""

from collections.abc import Iterator
from dataclasses import replace

from holdfast.ft_policies.doctor.facts import Examined
from holdfast.ft_policies.doctor.findings import (
    Advice,
    Finding,
    FindingKind,
    Repair,
    RepairKind,
    Severity,
    epochs_told,
    newest_before,
    replay_from,
)
from holdfast.ft_policies.doctor.snapshots import UNDO, ship_snapshot
from holdfast.ft_policies.tiers import Guarantee

SHOWN_FILES = 5
NO_REPAIR = "no repair is known: restore the control store from a backup"


def half_restored(seen: Examined) -> Finding:
    """Until the restore is finished nothing else can be said, and nothing must be mended."""
    return Finding(
        kind=FindingKind.HALF_RESTORED,
        severity=Severity.CRITICAL,
        where="control store",
        evidence=f"it is being restored to epoch {seen.restoring_to}, and the stream does not start "
        f"before that is done; `holdfast restore {seen.stream}` finishes it",
    )


def record_findings(seen: Examined) -> Iterator[Finding]:
    """All that is wrong between epoch log, ledger and table."""
    records = seen.records
    if records.undecided:
        yield _broken(FindingKind.HOLE_IN_EPOCH_LOG, "epoch log", NO_REPAIR, records.undecided)
    if records.unknown:
        told = f"in the ledger and not in the epoch log; {NO_REPAIR}"
        yield _broken(FindingKind.ENTRY_WITHOUT_EPOCH, "ledger", told, records.unknown)
    if records.missing:
        told = f"the ledger goes up to epoch {records.last_entered}"
        yield _recomputed(seen, FindingKind.HOLE_IN_LEDGER, "ledger", told, records.missing)
    yield from _not_entered(seen)
    if records.unwritten:
        yield _not_written(seen)


def source_findings(seen: Examined) -> Iterator[Finding]:
    """Input that a recovery would read again and cannot."""
    if seen.source_away:
        yield Finding(
            kind=FindingKind.SOURCE_AWAY,
            severity=Severity.CRITICAL,
            where="source",
            evidence=seen.source_away,
        )
    if not seen.lost_input:
        return
    epochs = sorted({one.epoch for one in seen.lost_input})
    rows = sum(one.rows for one in seen.lost_input)
    files = [f"{one.file} {one.reason}" for one in seen.lost_input[:SHOWN_FILES]]
    more = len(seen.lost_input) - len(files)
    told = "; ".join(files) + (f"; and {more} more" if more else "")
    past_some = seen.primary is not None and seen.primary_epoch >= epochs[0]
    yield Finding(
        kind=FindingKind.SOURCE_EXPIRED,
        severity=Severity.CRITICAL,
        where="source",
        evidence=f"{told}. {rows} rows cannot be read again from the newest good snapshot on; "
        f"put the files back as they were{_or_skip(seen)}",
        epochs=tuple(epochs),
        repairs=(ship_snapshot(),) if past_some else _skips(seen, epochs, rows),
    )


def skip_findings(seen: Examined) -> Iterator[Finding]:
    """What was given up, so that nobody forgets it."""
    for one in seen.skipped:
        yield Finding(
            kind=FindingKind.INPUT_SKIPPED,
            severity=Severity.NOTE,
            where=f"gap {one.gap}, by {one.run}",
            evidence=f"{one.rows} rows in {one.files} files; the output up to epoch "
            f"{one.last_entered} was made with them",
            epochs=one.epochs,
        )


def _or_skip(seen: Examined) -> str:
    return (
        f", or `holdfast stop {seen.stream}`, and a repair is offered that gives them up"
        if seen.runs
        else ""
    )


def _skips(seen: Examined, epochs: list[int], rows: int) -> tuple[Repair, ...]:
    """Nothing is skipped under a replica's feet, nor while what is out is not known.

    Only a stream that allows gaps gets it unasked.
    """
    if seen.runs or any(one.rows is None for one in seen.records.unentered):
        return ()
    replay = replay_from(seen, seen.newest_good)
    skip = Repair(
        kind=RepairKind.SKIP_INPUT,
        does="skips the files: what is put out from now on lacks their rows, what is out stays",
        cost=replace(replay, epochs_skipped=len(epochs), rows_lost=rows),
        undo="--undo reads them again, if they are back and nothing was put out without them",
        by_name=seen.guarantee is not Guarantee.GAP,
    )
    return (skip,)


def _broken(kind: FindingKind, where: str, told: str, epochs: tuple[int, ...]) -> Finding:
    return Finding(kind=kind, severity=Severity.CRITICAL, where=where, evidence=told, epochs=epochs)


def _recomputed(
    seen: Examined, kind: FindingKind, where: str, told: str, epochs: tuple[int, ...]
) -> Finding:
    """What a restore to the epoch before mends: all that follows is computed and put out again."""
    advice = _restore_before(seen, min(epochs))
    evidence = told if advice else f"{told}; {NO_REPAIR}"
    return replace(_broken(kind, where, evidence, epochs), advice=advice)


def _restore_before(seen: Examined, first: int) -> tuple[Advice, ...]:
    """Nobody can go back to before epoch 0, nor across a hole in the epoch log."""
    start = newest_before(seen, first)
    computed_from = 0 if start is None else start.epoch + 1
    if first == 0 or any(epoch >= computed_from for epoch in seen.records.undecided):
        return ()
    restore = Advice(
        command=f"holdfast restore {seen.stream} --epoch {first - 1}",
        does=f"takes ledger and output back to epoch {first - 1}, and the epochs after it are "
        "computed again from the epoch log; it looks first whether that can be done",
        cost=replay_from(seen, start),
    )
    return (restore,)


def _not_entered(seen: Examined) -> Iterator[Finding]:
    """The newest epoch of a replica that died between table and ledger is entered by the next one."""
    records = seen.records
    heals = {records.newest_written} if records.newest_written > records.last_entered else set()
    mendable = [one for one in records.unentered if one.rows is not None]
    lost = [one for one in records.unentered if one.rows is None]
    known = tuple(one.epoch for one in mendable)
    if known:
        healing = heals.issuperset(known)
        told = "the table has them with digest, replica and rows, the ledger does not"
        yield Finding(
            kind=FindingKind.WRITTEN_NOT_ENTERED,
            severity=Severity.NOTE if healing else Severity.CRITICAL,
            where="ledger",
            evidence=f"{told}; the next replica enters it by itself" if healing else told,
            epochs=known,
            repairs=(_enter(known),),
        )
    if lost:
        told = "the table's files were merged, so their rows are not known"
        epochs = tuple(one.epoch for one in lost)
        yield _recomputed(seen, FindingKind.WRITTEN_NOT_ENTERED, "merged table", told, epochs)


def _enter(epochs: tuple[int, ...]) -> Repair:
    return Repair(
        kind=RepairKind.ENTER_EPOCHS,
        does=f"enters {epochs_told(epochs)} into the ledger as the table's own commits tell",
        undo="--undo withdraws the entries",
    )


def _not_written(seen: Examined) -> Finding:
    """A replay writes them if they are all after what the table has."""
    records, first = seen.records, min(seen.records.unwritten)
    told = f"the table ends at epoch {records.newest_written}"
    repairs: tuple[Repair, ...] = ()
    if first <= records.newest_written:
        told += ", and epochs in its middle cannot be added"
    elif seen.runs:
        told += f"; `holdfast stop {seen.stream}`, and a repair is offered"
    else:
        repairs = (_replay_output(seen, first),)
    kind = FindingKind.ENTERED_NOT_WRITTEN
    found = _broken(kind, "output table", told, records.unwritten)
    return replace(found, repairs=repairs, advice=_restore_before(seen, first))


def _replay_output(seen: Examined, first: int) -> Repair:
    return Repair(
        kind=RepairKind.REPLAY_OUTPUT,
        does=f"sets aside the snapshots from epoch {first} on, so that the next start computes "
        "these epochs again and writes them",
        cost=replay_from(seen, newest_before(seen, first)),
        undo=UNDO,
    )
