"""The repair playbook: from the findings and the chosen repair to the one step that is safe now.

There is no program counter: what is mended is no longer found, so the next look goes on from there.
The ledger comes first, because a replica refuses to go on past what is missing in it, and the stream
last, because it then starts from what is left.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

from holdfast.ft_policies.doctor.facts import Examined, LostInput, TableCommit
from holdfast.ft_policies.doctor.findings import Finding, FindingKind, RepairKind, epochs_told
from holdfast.ft_policies.doctor.snapshots import place_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairFacts:
    """What was examined and found; without a chosen repair each finding gets its best."""

    examined: Examined
    findings: Sequence[Finding]
    chosen: RepairKind | None = None

    @property
    def due(self) -> "Due":
        """The findings that each repair is for."""
        return due_repairs(self.findings, self.chosen)

    def mended(self, *kinds: RepairKind, **examined: Any) -> "RepairFacts":
        """The facts once these repairs are done: their findings are gone, and other things are examined."""
        gone = [finding for kind in kinds for finding in self.due.get(kind, ())]
        left = tuple(finding for finding in self.findings if finding not in gone)
        return replace(self, examined=replace(self.examined, **examined), findings=left)


@dataclass(frozen=True, slots=True)
class EnterEpochs:
    """Enter epochs into the ledger, as the table's own commits tell."""

    name: ClassVar = "EnterEpochs"
    commits: tuple[TableCommit, ...]

    def describe(self) -> str:
        return f"enters {epochs_told([commit.epoch for commit in self.commits])} into the ledger"

    def after(self, facts: RepairFacts) -> RepairFacts:
        records = facts.examined.records
        left = tuple(commit for commit in records.unentered if commit not in self.commits)
        return facts.mended(RepairKind.ENTER_EPOCHS, records=replace(records, unentered=left))


@dataclass(frozen=True, slots=True)
class SkipInput:
    """Give up input files that are lost, so that their epochs can be computed from the rest."""

    name: ClassVar = "SkipInput"
    lost: tuple[LostInput, ...]

    def describe(self) -> str:
        epochs = sorted({file.epoch for file in self.lost})
        rows = sum(file.rows for file in self.lost)
        return f"gives up {rows} rows: skips {len(self.lost)} files of {epochs_told(epochs)}"

    def after(self, facts: RepairFacts) -> RepairFacts:
        left = tuple(file for file in facts.examined.lost_input if file not in self.lost)
        return facts.mended(RepairKind.SKIP_INPUT, lost_input=left)


@dataclass(frozen=True, slots=True)
class EndPrimary:
    """Take lease and slot from a primary whose checkpoint is damaged; it leaves when it reads so."""

    name: ClassVar = "EndPrimary"
    primary: str

    def describe(self) -> str:
        return f"keeps the checkpoint of {self.primary} aside, and takes lease and slot from it"

    def after(self, facts: RepairFacts) -> RepairFacts:
        return facts.mended(RepairKind.RESTART_PRIMARY, primary=None, ended_by_doctor=True)


@dataclass(frozen=True, slots=True)
class SetAsideSnapshots:
    """Move manifests, and the packs that no other manifest names, to where no restore finds them."""

    name: ClassVar = "SetAsideSnapshots"
    snapshots: tuple[str, ...]

    def describe(self) -> str:
        return f"sets aside snapshot {', '.join(self.snapshots)}"

    def after(self, facts: RepairFacts) -> RepairFacts:
        left = tuple(row for row in facts.examined.snapshots if row.id not in self.snapshots)
        return facts.mended(RepairKind.SET_ASIDE_SNAPSHOTS, snapshots=left)


@dataclass(frozen=True, slots=True)
class EnterSnapshots:
    """Enter snapshots into the catalogue, from their manifests."""

    name: ClassVar = "EnterSnapshots"
    snapshots: tuple[str, ...]

    def describe(self) -> str:
        return f"enters snapshot {', '.join(self.snapshots)} into the catalogue"

    def after(self, facts: RepairFacts) -> RepairFacts:
        return facts.mended(RepairKind.ENTER_SNAPSHOTS)


@dataclass(frozen=True, slots=True)
class MarkSnapshots:
    """Mark snapshots as damaged in the catalogue: their manifests are gone."""

    name: ClassVar = "MarkSnapshots"
    snapshots: tuple[str, ...]

    def describe(self) -> str:
        return f"marks snapshot {', '.join(self.snapshots)} as damaged in the catalogue"

    def after(self, facts: RepairFacts) -> RepairFacts:
        return facts.mended(RepairKind.MARK_SNAPSHOTS)


@dataclass(frozen=True, slots=True)
class SetAsideLeftovers:
    """Move folders that are no longer needed out of the way."""

    name: ClassVar = "SetAsideLeftovers"
    paths: tuple[str, ...]

    def describe(self) -> str:
        return f"sets aside {', '.join(self.paths)}"

    def after(self, facts: RepairFacts) -> RepairFacts:
        return facts.mended(RepairKind.SET_ASIDE_LEFTOVERS)


@dataclass(frozen=True, slots=True)
class BringBack:
    """Have the recover playbook bring the stream back."""

    name: ClassVar = "BringBack"

    def describe(self) -> str:
        return "brings the stream back from the newest good snapshot, as `holdfast recover` does"

    def after(self, facts: RepairFacts) -> RepairFacts:
        return facts.mended(ended_by_doctor=False)


@dataclass(frozen=True, slots=True)
class ShipSnapshot:
    """Have the live primary ship a snapshot now, and wait for it."""

    name: ClassVar = "ShipSnapshot"

    def describe(self) -> str:
        return "has the primary ship a snapshot, and waits for it"

    def after(self, facts: RepairFacts) -> RepairFacts:
        return facts.mended(RepairKind.SHIP_SNAPSHOT)


RepairStep: TypeAlias = (
    EnterEpochs
    | SkipInput
    | EndPrimary
    | SetAsideSnapshots
    | EnterSnapshots
    | MarkSnapshots
    | SetAsideLeftovers
    | BringBack
    | ShipSnapshot
)
Due: TypeAlias = dict[RepairKind, list[Finding]]


def next_step(facts: RepairFacts) -> RepairStep | None:
    """What comes next; `None` when what was chosen, or the best repair of each finding, is done."""
    due = facts.due
    for decide in _IN_ORDER:
        step = decide(facts.examined, due)
        if step is not None:
            return step
    return None


def due_repairs(findings: Sequence[Finding], chosen: RepairKind | None) -> Due:
    """The findings that each repair is for; without a choice each finding gets its best."""
    due: Due = {}
    for finding in findings:
        offered = [one.kind for one in finding.repairs if chosen or not one.by_name]
        for kind in offered[:1] if chosen is None else [k for k in offered if k is chosen]:
            due.setdefault(kind, []).append(finding)
    return due


def _enter_epochs(seen: Examined, due: Due) -> RepairStep | None:
    epochs = {epoch for one in due.get(RepairKind.ENTER_EPOCHS, ()) for epoch in one.epochs}
    if (
        RepairKind.SKIP_INPUT in due
    ):  # what is out must be known before it can be computed otherwise
        epochs |= {one.epoch for one in seen.records.unentered if one.rows is not None}
    commits = tuple(one for one in seen.records.unentered if one.epoch in epochs)
    return EnterEpochs(commits) if commits else None


def _skip_input(seen: Examined, due: Due) -> RepairStep | None:
    epochs = {epoch for one in due.get(RepairKind.SKIP_INPUT, ()) for epoch in one.epochs}
    lost = tuple(one for one in seen.lost_input if one.epoch in epochs)
    return SkipInput(lost) if lost else None


def _end_primary(seen: Examined, due: Due) -> RepairStep | None:
    """Not while no other replica could have its state: input may be lost that a new one would need."""
    if seen.primary is None or not seen.may_replay or RepairKind.RESTART_PRIMARY not in due:
        return None
    return EndPrimary(seen.primary)


def _set_aside_snapshots(seen: Examined, due: Due) -> RepairStep | None:
    """The unusable ones; those that hide what has to be written again; a shipper's own foundations.

    And before a primary is ended, those that have its damage: the next one would restore it.
    """
    unusable = {one.id: one for one in seen.snapshots if not one.good}
    going = set(_of(due, RepairKind.SET_ASIDE_SNAPSHOTS, unusable))
    if RepairKind.REBUILD_STATE in due:
        going |= set(unusable)
    if RepairKind.RESTART_PRIMARY in due:
        going |= {one.id for one in unusable.values() if one.state_faults}
    if RepairKind.SHIP_SNAPSHOT in due:
        going |= {one.id for one in unusable.values() if one.replica == seen.primary}
    if RepairKind.REPLAY_OUTPUT in due:
        first = min(seen.records.unwritten, default=seen.records.last_decided + 1)
        going |= {one.id for one in seen.snapshots if one.epoch >= first}
    ordered = tuple(one.id for one in seen.snapshots if one.id in going)
    return SetAsideSnapshots(ordered) if ordered else None


def _enter_snapshots(seen: Examined, due: Due) -> RepairStep | None:
    ids = _of(due, RepairKind.ENTER_SNAPSHOTS, (one.id for one in seen.snapshots))
    return EnterSnapshots(ids) if ids else None


def _mark_snapshots(seen: Examined, due: Due) -> RepairStep | None:
    ids = _of(due, RepairKind.MARK_SNAPSHOTS, seen.without_manifest)
    return MarkSnapshots(ids) if ids else None


def _of(due: Due, kind: RepairKind, snapshots: Iterable[str]) -> tuple[str, ...]:
    """Those of the snapshots that a repair is due for."""
    places = {one.where for one in due.get(kind, ())}
    return tuple(one for one in snapshots if place_of(one) in places)


def _set_aside_leftovers(seen: Examined, due: Due) -> RepairStep | None:
    found = due.get(RepairKind.SET_ASIDE_LEFTOVERS, ())
    staged = any(one.kind is FindingKind.LEFTOVER_STAGING for one in found)
    folders = {one.where for one in found}
    paths = tuple(
        one.path for one in seen.leftovers if (staged if one.staging else one.path in folders)
    )
    return SetAsideLeftovers(paths) if paths else None


def _bring_back(seen: Examined, due: Due) -> RepairStep | None:
    """Only what a repair has ended: a stream that failed by itself is the recovery sensor's."""
    return BringBack() if seen.wanted and seen.ended_by_doctor else None


def _ship_snapshot(seen: Examined, due: Due) -> RepairStep | None:
    return ShipSnapshot() if RepairKind.SHIP_SNAPSHOT in due else None


_IN_ORDER: tuple[Callable[[Examined, Due], RepairStep | None], ...] = (
    _enter_epochs,
    _skip_input,
    _set_aside_snapshots,
    _end_primary,
    _enter_snapshots,
    _mark_snapshots,
    _set_aside_leftovers,
    _bring_back,
    _ship_snapshot,
)
