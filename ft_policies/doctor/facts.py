"""What was read of a stream: the facts that a diagnosis rests on, and nothing that they mean."""

from dataclasses import dataclass

from holdfast.ft_policies.tiers import Guarantee

NOTHING = -1  # before epoch 0


@dataclass(frozen=True, slots=True)
class Fault:
    """A file or pack that is not as it must be, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFacts:
    """The local checkpoint of the primary, or of the last one if none is live."""

    where: str
    replica: str
    live: bool
    has_metadata: bool
    offsets: tuple[int, ...]
    commits: tuple[int, ...]
    state_faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFacts:
    """A manifest in the object store; `rows_after` were decided since, so a restore replays them."""

    id: str
    epoch: int
    replica: str
    rows_after: int
    unreadable: str = ""
    lost_packs: tuple[str, ...] = ()
    pack_faults: tuple[Fault, ...] = ()
    state_faults: tuple[Fault, ...] = ()
    """State files that are in it as they are damaged on the disk: no digest tells that."""
    catalogued: bool = True

    @property
    def good(self) -> bool:
        """Whether it can be restored, as far as one has looked."""
        return not (self.unreadable or self.lost_packs or self.pack_faults or self.state_faults)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCommit:
    """An epoch in the output table, as its commit tells; `rows` is `None` if its files are merged."""

    epoch: int
    replica: str
    token: int
    rows: int | None
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFacts:
    """Epoch log, ledger and output table, and where they do not agree.

    `newest_written` is the newest epoch in the table, -1 if there is none.
    """

    last_decided: int = NOTHING
    last_entered: int = NOTHING
    newest_written: int = NOTHING
    undecided: tuple[int, ...] = ()
    """Epochs that are missing in the epoch log."""
    unknown: tuple[int, ...] = ()
    """Epochs in the ledger that nobody decided."""
    missing: tuple[int, ...] = ()
    """Epochs that were decided, and are neither in the ledger nor in the table."""
    unentered: tuple[TableCommit, ...] = ()
    """Epochs that were decided and are in the table, and not in the ledger."""
    unwritten: tuple[int, ...] = ()
    """Epochs with rows in the ledger that are not in the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostInput:
    """An input file that an epoch was decided with and that cannot be read again."""

    epoch: int
    rows: int
    file: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """Input that a run has given up: files of these epochs, after `last_entered` were in the ledger."""

    gap: int
    run: str
    epochs: tuple[int, ...]
    files: int
    rows: int
    last_entered: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A folder that nobody needs any more; `of` says what it is from."""

    path: str
    of: str
    staging: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """Everything that was read of a stream in one look; snapshots come newest first."""

    stream: str
    guarantee: Guarantee = Guarantee.PRECISE
    wanted: bool = False
    primary: str | None = None
    primary_epoch: int = NOTHING
    """The last epoch that the live primary has computed itself; the ledger may be further."""
    ended_by_doctor: bool = False
    """Whether no primary is live because a repair has ended the last one."""
    checkpoint: CheckpointFacts | None = None
    snapshots: tuple[SnapshotFacts, ...] = ()
    without_manifest: tuple[str, ...] = ()
    """Snapshots that the catalogue has as available and the object store has not."""
    records: RecordFacts = RecordFacts()
    rows_in_all: int = 0
    rows_per_second: float | None = None
    """What the stream has been seen to process, if that is known."""
    lost_input: tuple[LostInput, ...] = ()
    source_away: str = ""
    """Why nobody can say what input is lost, if nobody can."""
    skipped: tuple[Skipped, ...] = ()
    leftovers: tuple[Leftover, ...] = ()
    restoring_to: int | None = None
    """The epoch that a restore takes it back to, if one is half done."""

    @property
    def runs(self) -> bool:
        """Whether it has a primary, or should."""
        return self.wanted or self.primary is not None

    @property
    def may_replay(self) -> bool:
        """Whether the source is seen to have all that the next replica would read."""
        return not (self.lost_input or self.source_away)

    @property
    def newest_good(self) -> SnapshotFacts | None:
        """The snapshot that the next replica starts from; `None` means epoch 0."""
        return next((one for one in self.snapshots if one.good), None)
