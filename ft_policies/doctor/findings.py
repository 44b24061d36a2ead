"""What can be wrong with a stream, how it can be repaired, and at what cost."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf

from holdfast.ft_policies.doctor.facts import NOTHING, ExaminedStream, SnapshotFacts


class Severity(StrEnum):
    """How urgent a finding is."""

    NOTE = "note"
    """Neither the stream nor a recovery depends on it."""
    WARNING = "warning"
    """The stream is exact, but its next recovery takes longer."""
    CRITICAL = "critical"
    """The stream, or its next recovery, fails or loses something until it is repaired."""

    @property
    def rank(self) -> int:
        """0 for the least."""
        return list(Severity).index(self)


class FindingKind(StrEnum):
    """What is wrong; `sentence` is the text for users."""

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
    def sentence(self) -> str:
        return _SENTENCES[self]


_SENTENCES = {
    FindingKind.HALF_RESTORED: "A restore is unfinished: ledger, snapshots and output do not agree yet.",
    FindingKind.HOLE_IN_OFFSETS: "Entries are missing in the checkpoint's log of offsets.",
    FindingKind.HOLE_IN_COMMITS: "Entries are missing in the checkpoint's log of commits.",
    FindingKind.COMMIT_AHEAD_OF_OFFSET: "The checkpoint has committed epochs that it never planned.",
    FindingKind.MISSING_METADATA: "The metadata file of the checkpoint, which identifies its query, is missing.",
    FindingKind.STATE_FILE: "A file of the checkpoint's state is missing or damaged.",
    FindingKind.MANIFEST_UNREADABLE: "A snapshot's manifest cannot be read.",
    FindingKind.PACK_GONE: "A pack of a snapshot is missing in the object store.",
    FindingKind.PACK_DAMAGED: "A pack of a snapshot is damaged: its length or digest has changed since it was shipped.",
    FindingKind.SHIPPED_DAMAGED: "A snapshot contains state that was damaged before it was shipped.",
    FindingKind.MANIFEST_WITHOUT_ROW: "A snapshot is in the object store but not in the catalogue.",
    FindingKind.ROW_WITHOUT_MANIFEST: "A snapshot is in the catalogue but not in the object store.",
    FindingKind.NO_SNAPSHOT: "No snapshot can be restored: a new replica replays every epoch.",
    FindingKind.SOURCE_AWAY: "The source cannot be read, so it is unknown what input is lost.",
    FindingKind.SOURCE_EXPIRED: "An input file that a recovery has to read again is missing or changed.",
    FindingKind.INPUT_SKIPPED: "Lost input was skipped: later output was computed without it.",
    FindingKind.HOLE_IN_EPOCH_LOG: "Epochs are missing in the epoch log.",
    FindingKind.ENTRY_WITHOUT_EPOCH: "The ledger has epochs that are not in the epoch log.",
    FindingKind.HOLE_IN_LEDGER: "Epochs are missing in both the ledger and the output table, but later ones are there.",
    FindingKind.WRITTEN_NOT_ENTERED: "Epochs are in the output table but not in the ledger.",
    FindingKind.ENTERED_NOT_WRITTEN: "Epochs are in the ledger with rows but not in the output table.",
    FindingKind.LEFTOVER_STAGING: "Files were staged for the output table and will never be committed.",
    FindingKind.LEFTOVER_FOLDER: "A folder is left over from a replica or a drill that has ended.",
}


class RepairKind(StrEnum):
    """The repairs that the doctor can carry out."""

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
    """The cost of a repair: what is replayed and lost; `seconds` is `None` if it is unknown."""

    epochs_replayed: int = 0
    rows_replayed: int = 0
    seconds: float | None = 0.0
    epochs_skipped: int = 0
    rows_lost: int = 0

    @property
    def rank(self) -> tuple[float, ...]:
        """The sort key: repairs without loss first, then the cheapest."""
        seconds = inf if self.seconds is None else self.seconds
        return (self.rows_lost, self.epochs_skipped, seconds, self.rows_replayed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """One way to repair a finding; `undo` says how to undo it.

    A repair with `by_name` is only carried out when the operator chooses it by its name.
    """

    kind: RepairKind
    does: str
    cost: Cost = Cost()
    undo: str
    by_name: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Another command that repairs a finding, which the operator has to run."""

    command: str
    does: str
    cost: Cost = Cost()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is wrong: where, the evidence, and what can be done, best first."""

    kind: FindingKind
    severity: Severity
    where: str
    evidence: str
    epochs: tuple[int, ...] = ()
    repairs: tuple[Repair, ...] = ()
    advice: tuple[Advice, ...] = ()

    @property
    def place(self) -> str:
        """The location, with the epochs if there are any."""
        return f"{self.where}, {format_epochs(self.epochs)}" if self.epochs else self.where


def rank_repairs(repairs: Iterable[Repair]) -> tuple[Repair, ...]:
    """Sort repairs: those without loss first, then the cheapest."""
    return tuple(sorted(repairs, key=lambda repair: repair.cost.rank))


def worst_severity(findings: Iterable[Finding]) -> Severity | None:
    """The severity of the stream as a whole; `None` without findings."""
    severities = (finding.severity for finding in findings)
    return max(severities, key=lambda severity: severity.rank, default=None)


def confirm_findings(first: Sequence[Finding], second: Sequence[Finding]) -> list[Finding]:
    """What two examinations of a live stream agree on; anything else was work in progress."""
    earlier_by_place = {(finding.kind, finding.where): finding for finding in first}
    confirmed: list[Finding] = []
    for finding in second:
        earlier = earlier_by_place.get((finding.kind, finding.where))
        if earlier is None:
            continue
        common = tuple(epoch for epoch in finding.epochs if epoch in earlier.epochs)
        if common or not finding.epochs:
            confirmed.append(replace(finding, epochs=common))
    return confirmed


def format_epochs(epochs: Sequence[int]) -> str:
    """Format epochs as `epoch 7` or `epochs 4 to 9, 12`."""
    runs: list[list[int]] = []
    for epoch in sorted(epochs):
        if runs and runs[-1][-1] == epoch - 1:
            runs[-1][1:] = [epoch]
        else:
            runs.append([epoch])
    numbers = ", ".join(" to ".join(map(str, run)) for run in runs)
    return f"{'epoch' if len(epochs) == 1 else 'epochs'} {numbers}"


def replay_from(examined: ExaminedStream, snapshot: SnapshotFacts | None) -> Cost:
    """The cost of a replay from a snapshot, or from epoch 0 without one; nothing is lost."""
    epoch = NOTHING if snapshot is None else snapshot.epoch
    rows = examined.rows_in_all if snapshot is None else snapshot.rows_after
    return Cost(
        epochs_replayed=max(examined.records.last_decided - epoch, 0),
        rows_replayed=rows,
        seconds=_replay_seconds(examined, rows),
    )


def newest_before(examined: ExaminedStream, epoch: int) -> SnapshotFacts | None:
    """The newest good snapshot from which an epoch can be computed again; `None` means epoch 0."""
    good = (snapshot for snapshot in examined.snapshots if snapshot.good)
    return next((snapshot for snapshot in good if snapshot.epoch < epoch), None)


def extra_replay(examined: ExaminedStream, without: SnapshotFacts) -> Cost:
    """The extra cost of a restore without one snapshot: the epochs since the good one before it."""
    good = (snapshot for snapshot in examined.snapshots if snapshot.good)
    older = next((snapshot for snapshot in good if snapshot.epoch <= without.epoch), None)
    newest = examined.newest_good
    if newest is not None and newest.epoch >= without.epoch:
        return Cost()
    epoch = NOTHING if older is None else older.epoch
    rows = (examined.rows_in_all if older is None else older.rows_after) - without.rows_after
    return Cost(
        epochs_replayed=without.epoch - epoch,
        rows_replayed=rows,
        seconds=_replay_seconds(examined, rows),
    )


def _replay_seconds(examined: ExaminedStream, rows: int) -> float | None:
    if rows == 0:
        return 0.0
    return rows / examined.rows_per_second if examined.rows_per_second else None
