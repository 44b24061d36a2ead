"""What can be wrong with a stream, and what can be done about it at which cost."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf

from holdfast.ft_policies.doctor.facts import NOTHING, Examined, SnapshotFacts


class Severity(StrEnum):
    """How soon somebody should act."""

    NOTE = "note"
    """Nothing depends on it."""
    WARNING = "warning"
    """The stream is exact, but its next recovery takes longer."""
    CRITICAL = "critical"
    """The stream, or its next recovery, fails or loses something until it is repaired."""

    @property
    def rank(self) -> int:
        """0 for the least."""
        return list(Severity).index(self)


class FindingKind(StrEnum):
    """What is wrong; `told` says it in a sentence."""

    HALF_RESTORED = "half_restored"
    HOLE_IN_OFFSETS = "hole_in_offsets"
    HOLE_IN_COMMITS = "hole_in_commits"
    COMMIT_AHEAD_OF_OFFSET = "commit_ahead_of_offset"
    MISSING_METADATA = "missing_metadata"
    STATE_FILE = "state_file"
    MANIFEST_UNREADABLE = "manifest_unreadable"
    PACK_GONE = "pack_gone"
    PACK_DAMAGED = "pack_damaged"
    SHIPPED_DAMAGED = "shipped_damaged"
    MANIFEST_WITHOUT_ROW = "manifest_without_row"
    ROW_WITHOUT_MANIFEST = "row_without_manifest"
    NO_SNAPSHOT = "no_snapshot"
    SOURCE_AWAY = "source_away"
    SOURCE_EXPIRED = "source_expired"
    INPUT_SKIPPED = "input_skipped"
    HOLE_IN_EPOCH_LOG = "hole_in_epoch_log"
    ENTRY_WITHOUT_EPOCH = "entry_without_epoch"
    HOLE_IN_LEDGER = "hole_in_ledger"
    WRITTEN_NOT_ENTERED = "written_not_entered"
    ENTERED_NOT_WRITTEN = "entered_not_written"
    LEFTOVER_STAGING = "leftover_staging"
    LEFTOVER_FOLDER = "leftover_folder"

    @property
    def told(self) -> str:
        """The kind in a sentence."""
        return _TOLD[self]


_TOLD = {
    FindingKind.HALF_RESTORED: "A restore is half done: ledger, snapshots and output do not agree yet.",
    FindingKind.HOLE_IN_OFFSETS: "The checkpoint's log of offsets lacks entries.",
    FindingKind.HOLE_IN_COMMITS: "The checkpoint's log of commits lacks entries.",
    FindingKind.COMMIT_AHEAD_OF_OFFSET: "The checkpoint has committed epochs that it never planned.",
    FindingKind.MISSING_METADATA: "The checkpoint lacks the file that names its query.",
    FindingKind.STATE_FILE: "A file of the checkpoint's state is missing or damaged.",
    FindingKind.MANIFEST_UNREADABLE: "A snapshot's manifest cannot be read.",
    FindingKind.PACK_GONE: "A snapshot's pack is gone from the object store.",
    FindingKind.PACK_DAMAGED: "A snapshot's pack has another length or digest than when it was shipped.",
    FindingKind.SHIPPED_DAMAGED: "A snapshot has state that was damaged before it was shipped.",
    FindingKind.MANIFEST_WITHOUT_ROW: "A snapshot is in the object store and not in the catalogue.",
    FindingKind.ROW_WITHOUT_MANIFEST: "A snapshot is in the catalogue and not in the object store.",
    FindingKind.NO_SNAPSHOT: "No snapshot can be restored: a new replica replays every epoch.",
    FindingKind.SOURCE_AWAY: "The source cannot be read, so nobody can say what input is lost.",
    FindingKind.SOURCE_EXPIRED: "An input file is gone or changed that a recovery has to read again.",
    FindingKind.INPUT_SKIPPED: "Input that was lost is skipped: later output was made without it.",
    FindingKind.HOLE_IN_EPOCH_LOG: "The epoch log lacks epochs.",
    FindingKind.ENTRY_WITHOUT_EPOCH: "The ledger has epochs that nobody decided.",
    FindingKind.HOLE_IN_LEDGER: "Epochs are neither in the ledger nor in the table, but later ones are.",
    FindingKind.WRITTEN_NOT_ENTERED: "Epochs are in the output table and not in the ledger.",
    FindingKind.ENTERED_NOT_WRITTEN: "Epochs are in the ledger with rows and not in the output table.",
    FindingKind.LEFTOVER_STAGING: "Files were staged for the table, and nobody will commit them.",
    FindingKind.LEFTOVER_FOLDER: "A folder is left over from a replica or a drill that has ended.",
}


class RepairKind(StrEnum):
    """What can be done."""

    ENTER_EPOCHS = "enter_epochs"
    RESTART_PRIMARY = "restart_primary"
    SET_ASIDE_SNAPSHOTS = "set_aside_snapshots"
    REPLAY_OUTPUT = "replay_output"
    REBUILD_STATE = "rebuild_state"
    ENTER_SNAPSHOTS = "enter_snapshots"
    MARK_SNAPSHOTS = "mark_snapshots"
    SET_ASIDE_LEFTOVERS = "set_aside_leftovers"
    SKIP_INPUT = "skip_input"
    SHIP_SNAPSHOT = "ship_snapshot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a repair costs: what is replayed, for how long if that is known, and what is lost."""

    epochs_replayed: int = 0
    rows_replayed: int = 0
    seconds: float | None = 0.0
    epochs_skipped: int = 0
    rows_lost: int = 0

    @property
    def rank(self) -> tuple[float, ...]:
        """Nothing lost first, then the cheapest."""
        seconds = inf if self.seconds is None else self.seconds
        return (self.rows_lost, self.epochs_skipped, seconds, self.rows_replayed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """One way to mend a finding; `undo` says how to take it back.

    One that is `by_name` only is never done unless it is asked for by its name.
    """

    kind: RepairKind
    does: str
    cost: Cost = Cost()
    undo: str
    by_name: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What another command mends, which people have to run themselves."""

    command: str
    does: str
    cost: Cost = Cost()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is wrong, where, how one sees it, and what can be done, the best first."""

    kind: FindingKind
    severity: Severity
    where: str
    evidence: str
    epochs: tuple[int, ...] = ()
    repairs: tuple[Repair, ...] = ()
    advice: tuple[Advice, ...] = ()

    @property
    def place(self) -> str:
        """Where it is, with the epochs that it is about."""
        return f"{self.where}, {epochs_told(self.epochs)}" if self.epochs else self.where


def ranked(repairs: Iterable[Repair]) -> tuple[Repair, ...]:
    """Nothing lost first, then the cheapest."""
    return tuple(sorted(repairs, key=lambda one: one.cost.rank))


def worst(findings: Iterable[Finding]) -> Severity | None:
    """The severity that counts for the stream; `None` if all is well."""
    return max((one.severity for one in findings), key=lambda one: one.rank, default=None)


def confirmed(first: Sequence[Finding], again: Sequence[Finding]) -> list[Finding]:
    """What two looks at a live stream agree on: what only one of them shows was in flight."""
    before = {(one.kind, one.where): one for one in first}
    kept: list[Finding] = []
    for one in again:
        earlier = before.get((one.kind, one.where))
        if earlier is None:
            continue
        common = tuple(epoch for epoch in one.epochs if epoch in earlier.epochs)
        if common or not one.epochs:
            kept.append(replace(one, epochs=common))
    return kept


def epochs_told(epochs: Sequence[int]) -> str:
    """`epoch 7`, `epochs 4 to 9, 12`."""
    runs: list[list[int]] = []
    for epoch in sorted(epochs):
        if runs and runs[-1][-1] == epoch - 1:
            runs[-1][1:] = [epoch]
        else:
            runs.append([epoch])
    told = ", ".join(" to ".join(map(str, run)) for run in runs)
    return f"{'epoch' if len(epochs) == 1 else 'epochs'} {told}"


def replay_from(seen: Examined, snapshot: SnapshotFacts | None) -> Cost:
    """The cost of going on from a snapshot, or from epoch 0 without one; nothing is lost."""
    epoch = NOTHING if snapshot is None else snapshot.epoch
    rows = seen.rows_in_all if snapshot is None else snapshot.rows_after
    return Cost(
        epochs_replayed=max(seen.records.last_decided - epoch, 0),
        rows_replayed=rows,
        seconds=_seconds(seen, rows),
    )


def newest_before(seen: Examined, epoch: int) -> SnapshotFacts | None:
    """The snapshot from which an epoch can be computed again; `None` means epoch 0."""
    return next((one for one in seen.snapshots if one.good and one.epoch < epoch), None)


def extra_replay(seen: Examined, without: SnapshotFacts) -> Cost:
    """What a restore costs more because one snapshot cannot be used: the epochs since the one before."""
    older = next((one for one in seen.snapshots if one.good and one.epoch <= without.epoch), None)
    newest = seen.newest_good
    if newest is not None and newest.epoch >= without.epoch:
        return Cost()
    epoch = NOTHING if older is None else older.epoch
    rows = (seen.rows_in_all if older is None else older.rows_after) - without.rows_after
    return Cost(
        epochs_replayed=without.epoch - epoch, rows_replayed=rows, seconds=_seconds(seen, rows)
    )


def _seconds(seen: Examined, rows: int) -> float | None:
    if rows == 0:
        return 0.0
    return rows / seen.rows_per_second if seen.rows_per_second else None
