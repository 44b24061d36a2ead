"""Findings where epoch log, ledger, output table and source disagree."""

from collections.abc import Iterator
from dataclasses import replace

from holdfast.ft_policies.doctor.facts import ExaminedStream
from holdfast.ft_policies.doctor.findings import (
    Advice,
    Finding,
    FindingKind,
    Repair,
    RepairKind,
    Severity,
    format_epochs,
    newest_before,
    replay_from,
)
from holdfast.ft_policies.doctor.snapshots import UNDO, ship_snapshot
from holdfast.ft_policies.tiers import Guarantee

SHOWN_FILES = 5
NO_REPAIR = "there is no repair: restore the control store from a backup"


def half_restored(examined: ExaminedStream) -> Finding:
    """The only finding while a restore is unfinished: nothing else may be repaired before it."""
    return Finding(
        kind=FindingKind.HALF_RESTORED,
        severity=Severity.CRITICAL,
        where="control store",
        evidence=f"the restore to epoch {examined.restoring_to} is unfinished, and the stream cannot start "
        f"before it is done; run `holdfast restore {examined.stream}` to finish it",
    )


def record_findings(examined: ExaminedStream) -> Iterator[Finding]:
    """Disagreements between epoch log, ledger and output table."""
    records = examined.records
    if records.undecided:
        yield _critical(FindingKind.HOLE_IN_EPOCH_LOG, "epoch log", NO_REPAIR, records.undecided)
    if records.unknown:
        evidence = f"in the ledger but not in the epoch log; {NO_REPAIR}"
        yield _critical(FindingKind.ENTRY_WITHOUT_EPOCH, "ledger", evidence, records.unknown)
    if records.missing:
        evidence = f"the ledger ends at epoch {records.last_entered}"
        yield _needs_restore(
            examined, FindingKind.HOLE_IN_LEDGER, "ledger", evidence, records.missing
        )
    yield from _not_entered(examined)
    if records.unwritten:
        yield _not_written(examined)


def source_findings(examined: ExaminedStream) -> Iterator[Finding]:
    """Input that a recovery has to read again and cannot."""
    if examined.source_away:
        yield Finding(
            kind=FindingKind.SOURCE_AWAY,
            severity=Severity.CRITICAL,
            where="source",
            evidence=examined.source_away,
        )
    if not examined.lost_input:
        return
    epochs = sorted({file.epoch for file in examined.lost_input})
    rows = sum(file.rows for file in examined.lost_input)
    shown = [f"{file.file} {file.reason}" for file in examined.lost_input[:SHOWN_FILES]]
    more = len(examined.lost_input) - len(shown)
    files = "; ".join(shown) + (f"; and {more} more" if more else "")
    primary_is_past = examined.primary is not None and examined.primary_epoch >= epochs[0]
    yield Finding(
        kind=FindingKind.SOURCE_EXPIRED,
        severity=Severity.CRITICAL,
        where="source",
        evidence=f"{files}. {rows} rows after the newest good snapshot cannot be read again; "
        f"put the files back unchanged{_or_skip(examined)}",
        epochs=tuple(epochs),
        repairs=(ship_snapshot(),) if primary_is_past else _skips(examined, epochs, rows),
    )


def skip_findings(examined: ExaminedStream) -> Iterator[Finding]:
    """Input that was given up, as a lasting note."""
    for skipped in examined.skipped:
        yield Finding(
            kind=FindingKind.INPUT_SKIPPED,
            severity=Severity.NOTE,
            where=f"gap {skipped.gap}, by {skipped.run}",
            evidence=f"{skipped.rows} rows"
            + (f" in {skipped.files} files; " if skipped.files else "; ")
            + (
                f"the output up to epoch {skipped.last_entered} contains them"
                if skipped.last_entered >= min(skipped.epochs)
                else "no output contains them"
            ),
            epochs=skipped.epochs,
        )


def _or_skip(examined: ExaminedStream) -> str:
    return (
        f", or run `holdfast stop {examined.stream}`: a stopped stream can be repaired without them"
        if examined.runs
        else ""
    )


def _skips(examined: ExaminedStream, epochs: list[int], rows: int) -> tuple[Repair, ...]:
    """Offered only while no replica runs and all output is known.

    Only with a guarantee of `gap` is it carried out without being chosen by name.
    """
    if examined.runs or any(commit.rows is None for commit in examined.records.unentered):
        return ()
    replay = replay_from(examined, examined.newest_good)
    skip = Repair(
        kind=RepairKind.SKIP_INPUT,
        does="skips the files: new output lacks their rows, existing output stays",
        cost=replace(replay, epochs_skipped=len(epochs), rows_lost=rows),
        undo="--undo reads them again, if they are back and no output was computed without them",
        by_name=examined.guarantee is not Guarantee.GAP,
    )
    return (skip,)


def _critical(kind: FindingKind, where: str, evidence: str, epochs: tuple[int, ...]) -> Finding:
    return Finding(
        kind=kind, severity=Severity.CRITICAL, where=where, evidence=evidence, epochs=epochs
    )


def _needs_restore(
    examined: ExaminedStream, kind: FindingKind, where: str, evidence: str, epochs: tuple[int, ...]
) -> Finding:
    """A finding that a restore to the epoch before repairs: all later epochs are computed again."""
    advice = _restore_before(examined, min(epochs))
    evidence = evidence if advice else f"{evidence}; {NO_REPAIR}"
    return replace(_critical(kind, where, evidence, epochs), advice=advice)


def _restore_before(examined: ExaminedStream, first: int) -> tuple[Advice, ...]:
    """No restore goes back to before epoch 0, or across a hole in the epoch log."""
    start = newest_before(examined, first)
    computed_from = 0 if start is None else start.epoch + 1
    if first == 0 or any(epoch >= computed_from for epoch in examined.records.undecided):
        return ()
    restore = Advice(
        command=f"holdfast restore {examined.stream} --epoch {first - 1}",
        does=f"rolls ledger and output back to epoch {first - 1} and computes the later epochs again "
        "from the epoch log, after a check that this is possible",
        cost=replay_from(examined, start),
    )
    return (restore,)


def _not_entered(examined: ExaminedStream) -> Iterator[Finding]:
    """Epochs in the table but not in the ledger.

    If a replica died between the two writes, the next one enters its last epoch by itself.
    """
    records = examined.records
    heals = {records.newest_written} if records.newest_written > records.last_entered else set()
    enterable = tuple(commit.epoch for commit in records.unentered if commit.rows is not None)
    merged = tuple(commit.epoch for commit in records.unentered if commit.rows is None)
    if enterable:
        healing = heals.issuperset(enterable)
        evidence = "the table has their digest, replica and rows, the ledger has no entry"
        yield Finding(
            kind=FindingKind.WRITTEN_NOT_ENTERED,
            severity=Severity.NOTE if healing else Severity.CRITICAL,
            where="ledger",
            evidence=f"{evidence}; the next replica adds it by itself" if healing else evidence,
            epochs=enterable,
            repairs=(_enter(enterable),),
        )
    if merged:
        evidence = "the table has no commit or no files of their own any more, so their rows and digests are unknown"
        kind = FindingKind.WRITTEN_NOT_ENTERED
        yield _needs_restore(examined, kind, "output table", evidence, merged)


def _enter(epochs: tuple[int, ...]) -> Repair:
    return Repair(
        kind=RepairKind.ENTER_EPOCHS,
        does=f"enters {format_epochs(epochs)} into the ledger, from the commits of the table",
        undo="--undo withdraws the entries",
    )


def _not_written(examined: ExaminedStream) -> Finding:
    """A replay writes the missing epochs if all of them are after the end of the table."""
    records, first = examined.records, min(examined.records.unwritten)
    evidence = f"the table ends at epoch {records.newest_written}"
    repairs: tuple[Repair, ...] = ()
    if first <= records.newest_written:
        evidence += ", and missing epochs before that cannot be added"
    elif examined.runs:
        evidence += f"; run `holdfast stop {examined.stream}`: a stopped stream can be repaired"
    else:
        repairs = (_replay_output(examined, first),)
    kind = FindingKind.ENTERED_NOT_WRITTEN
    finding = _critical(kind, "output table", evidence, records.unwritten)
    return replace(finding, repairs=repairs, advice=_restore_before(examined, first))


def _replay_output(examined: ExaminedStream, first: int) -> Repair:
    return Repair(
        kind=RepairKind.REPLAY_OUTPUT,
        does=f"sets aside the snapshots from epoch {first} on, so that the next start computes "
        "these epochs again and writes them",
        cost=replay_from(examined, newest_before(examined, first)),
        undo=UNDO,
    )
