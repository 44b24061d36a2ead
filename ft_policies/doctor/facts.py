"""What was read of a stream: the facts of a diagnosis, without what they mean."""

from dataclasses import dataclass

from holdfast.ft_policies.tiers import Guarantee

NOTHING = -1  # before epoch 0


@dataclass(frozen=True, slots=True)
class Damage:
    """A damaged or missing file or pack, and the reason."""

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
    state_damage: tuple[Damage, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFacts:
    """A manifest in the object store; `rows_after` were decided since, so a restore replays them."""

    id: str
    epoch: int
    replica: str
    rows_after: int
    unreadable: str = ""
    lost_packs: tuple[str, ...] = ()
    pack_damage: tuple[Damage, ...] = ()
    state_damage: tuple[Damage, ...] = ()
    """State files that were damaged before they were shipped: their digests match the damage."""
    catalogued: bool = True

    @property
    def good(self) -> bool:
        """Whether it can be restored, as far as it was examined."""
        return not (self.unreadable or self.lost_packs or self.pack_damage or self.state_damage)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCommit:
    """An epoch in the output table, as its commit records it; `rows` is `None` if its files were merged."""

    epoch: int
    replica: str
    token: int
    rows: int | None
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFacts:
    """Epoch log, ledger and output table, and where they disagree.

    `newest_written` is the newest epoch in the table, -1 if there is none.
    """

    first_kept: int = 0
    """The oldest epoch that is not pruned."""
    last_decided: int = NOTHING
    last_entered: int = NOTHING
    newest_written: int = NOTHING
    undecided: tuple[int, ...] = ()
    """Epochs that are missing in the epoch log."""
    unknown: tuple[int, ...] = ()
    """Epochs in the ledger that are not in the epoch log."""
    missing: tuple[int, ...] = ()
    """Epochs that were decided but are neither in the ledger nor in the table."""
    unentered: tuple[TableCommit, ...] = ()
    """Epochs that were decided and are in the table but not in the ledger."""
    unwritten: tuple[int, ...] = ()
    """Epochs with rows in the ledger that are not in the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostInput:
    """An input file of a decided epoch that cannot be read again."""

    epoch: int
    rows: int
    file: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """Input that a run has given up, when the ledger ended at `last_entered`."""

    gap: int
    run: str
    epochs: tuple[int, ...]
    files: int
    rows: int
    last_entered: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A folder that is no longer needed; `of` names its origin."""

    path: str
    of: str
    staging: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedStream:
    """Everything that was read of a stream in one examination; snapshots are newest first."""

    stream: str
    guarantee: Guarantee = Guarantee.PRECISE
    wanted: bool = False
    primary: str | None = None
    primary_epoch: int = NOTHING
    """The last epoch that the live primary has computed itself; the ledger may be ahead of it."""
    ended_by_doctor: bool = False
    """Whether a repair has ended the last primary, and no new one is live."""
    checkpoint: CheckpointFacts | None = None
    snapshots: tuple[SnapshotFacts, ...] = ()
    without_manifest: tuple[str, ...] = ()
    """Snapshots that are available in the catalogue and missing in the object store."""
    records: RecordFacts = RecordFacts()
    rows_in_all: int = 0
    rows_per_second: float | None = None
    """The measured throughput of the stream; `None` if it is unknown."""
    lost_input: tuple[LostInput, ...] = ()
    source_away: str = ""
    """Why the source cannot be read, so that it is unknown what input is lost; empty if it can."""
    skipped: tuple[Skipped, ...] = ()
    leftovers: tuple[Leftover, ...] = ()
    restoring_to: int | None = None
    """The epoch of an unfinished restore."""

    @property
    def runs(self) -> bool:
        """Whether it has a primary, or should have one."""
        return self.wanted or self.primary is not None

    @property
    def may_replay(self) -> bool:
        """Whether epoch log and source still have all the input that the next replica would read."""
        return not (self.lost_input or self.source_away or self.is_cut_off)

    @property
    def is_cut_off(self) -> bool:
        """Whether no snapshot is left, and the first epochs are pruned: the state cannot be computed again."""
        return self.newest_good is None and self.records.first_kept > 0

    @property
    def newest_good(self) -> SnapshotFacts | None:
        """The snapshot that the next replica starts from; `None` means epoch 0."""
        return next((snapshot for snapshot in self.snapshots if snapshot.good), None)
