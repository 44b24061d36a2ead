"""The repair playbook: from the findings and the chosen repair to the one step that is safe now.

There is no program counter: the next examination no longer finds what was repaired, and continues from
there. The ledger comes first, because a replica does not continue past an epoch that is missing in it; the
stream comes last, because it then starts from what is left.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

from holdfast.ft_policies.doctor.facts import ExaminedStream, LostInput, TableCommit
from holdfast.ft_policies.doctor.findings import Finding, FindingKind, RepairKind, format_epochs
from holdfast.ft_policies.doctor.snapshots import place_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairFacts:
    """The examined stream and its findings; without a chosen repair each finding gets its best one."""

    examined: ExaminedStream
    findings: Sequence[Finding]
    chosen: RepairKind | None = None

    @property
    def due(self) -> "Due":
        """The findings that each repair is for."""
        return due_repairs(self.findings, self.chosen)

    def after_repair(self, *kinds: RepairKind, **changes: Any) -> "RepairFacts":
        """The facts after these repairs: without their findings, and with these changes of the stream."""
        gone = [finding for kind in kinds for finding in self.due.get(kind, ())]
        left = tuple(finding for finding in self.findings if finding not in gone)
        return replace(self, examined=replace(self.examined, **changes), findings=left)


@dataclass(frozen=True, slots=True)
class EnterEpochs:
    """Enter epochs into the ledger, from the commits of the output table."""

    name: ClassVar = "EnterEpochs"
    commits: tuple[TableCommit, ...]

    def describe(self) -> str:
        return f"enters {format_epochs([commit.epoch for commit in self.commits])} into the ledger"

    def after(self, facts: RepairFacts) -> RepairFacts:
        records = facts.examined.records
        left = tuple(commit for commit in records.unentered if commit not in self.commits)
        return facts.after_repair(RepairKind.ENTER_EPOCHS, records=replace(records, unentered=left))


@dataclass(frozen=True, slots=True)
class SkipInput:
    """Give up input files that are lost, so that their epochs can be computed from the rest."""

    name: ClassVar = "SkipInput"
    lost: tuple[LostInput, ...]

    def describe(self) -> str:
        epochs = sorted({file.epoch for file in self.lost})
        rows = sum(file.rows for file in self.lost)
        return f"gives up {rows} rows: skips {len(self.lost)} files of {format_epochs(epochs)}"

    def after(self, facts: RepairFacts) -> RepairFacts:
        left = tuple(file for file in facts.examined.lost_input if file not in self.lost)
        return facts.after_repair(RepairKind.SKIP_INPUT, lost_input=left)


@dataclass(frozen=True, slots=True)
class EndPrimary:
    """Take lease and slot from a primary with a damaged checkpoint; it leaves when it reads this."""

    name: ClassVar = "EndPrimary"
    primary: str

    def describe(self) -> str:
        return (
            f"sets aside the checkpoint of {self.primary}, and takes the lease and the slot from it"
        )

    def after(self, facts: RepairFacts) -> RepairFacts:
        return facts.after_repair(RepairKind.RESTART_PRIMARY, primary=None, ended_by_doctor=True)


@dataclass(frozen=True, slots=True)
class SetAsideSnapshots:
    """Move manifests, and packs that no other manifest names, to where no restore looks."""

    name: ClassVar = "SetAsideSnapshots"
    snapshots: tuple[str, ...]

    def describe(self) -> str:
        return f"sets aside snapshot {', '.join(self.snapshots)}"

    def after(self, facts: RepairFacts) -> RepairFacts:
        left = tuple(row for row in facts.examined.snapshots if row.id not in self.snapshots)
        return facts.after_repair(RepairKind.SET_ASIDE_SNAPSHOTS, snapshots=left)


@dataclass(frozen=True, slots=True)
class EnterSnapshots:
    """Enter snapshots into the catalogue, from their manifests."""

    name: ClassVar = "EnterSnapshots"
    snapshots: tuple[str, ...]

    def describe(self) -> str:
        return f"enters snapshot {', '.join(self.snapshots)} into the catalogue"

    def after(self, facts: RepairFacts) -> RepairFacts:
        return facts.after_repair(RepairKind.ENTER_SNAPSHOTS)


@dataclass(frozen=True, slots=True)
class MarkSnapshots:
    """Mark snapshots as damaged in the catalogue: their manifests are gone."""

    name: ClassVar = "MarkSnapshots"
    snapshots: tuple[str, ...]

    def describe(self) -> str:
        return f"marks snapshot {', '.join(self.snapshots)} as damaged in the catalogue"

    def after(self, facts: RepairFacts) -> RepairFacts:
        return facts.after_repair(RepairKind.MARK_SNAPSHOTS)


@dataclass(frozen=True, slots=True)
class SetAsideLeftovers:
    """Move folders that are no longer needed out of the way."""

    name: ClassVar = "SetAsideLeftovers"
    paths: tuple[str, ...]

    def describe(self) -> str:
        return f"sets aside {', '.join(self.paths)}"

    def after(self, facts: RepairFacts) -> RepairFacts:
        return facts.after_repair(RepairKind.SET_ASIDE_LEFTOVERS)


@dataclass(frozen=True, slots=True)
class BringBack:
    """Have the recover playbook bring the stream back."""

    name: ClassVar = "BringBack"

    def describe(self) -> str:
        return "brings the stream back from the newest good snapshot, as `holdfast recover` does"

    def after(self, facts: RepairFacts) -> RepairFacts:
        return facts.after_repair(ended_by_doctor=False)


@dataclass(frozen=True, slots=True)
class ShipSnapshot:
    """Have the live primary ship a snapshot now, and wait for it."""

    name: ClassVar = "ShipSnapshot"

    def describe(self) -> str:
        return "has the primary ship a snapshot, and waits for it"

    def after(self, facts: RepairFacts) -> RepairFacts:
        return facts.after_repair(RepairKind.SHIP_SNAPSHOT)


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
    """The next step; `None` when the chosen repair, or the best repair of each finding, is done."""
    due = facts.due
    for decide in _IN_ORDER:
        step = decide(facts.examined, due)
        if step is not None:
            return step
    return None


def due_repairs(findings: Sequence[Finding], chosen: RepairKind | None) -> Due:
    """The findings of each repair that is due; without a choice each finding gets its best one."""
    due: Due = {}
    for finding in findings:
        offered = [repair.kind for repair in finding.repairs if chosen or not repair.by_name]
        for kind in offered[:1] if chosen is None else [kind for kind in offered if kind is chosen]:
            due.setdefault(kind, []).append(finding)
    return due


def _enter_epochs(examined: ExaminedStream, due: Due) -> RepairStep | None:
    """Before input is skipped all output must be known, because epochs are then computed without it."""
    epochs = _due_epochs(due, RepairKind.ENTER_EPOCHS)
    unentered = examined.records.unentered
    if RepairKind.SKIP_INPUT in due:
        epochs |= {commit.epoch for commit in unentered if commit.rows is not None}
    commits = tuple(commit for commit in unentered if commit.epoch in epochs)
    return EnterEpochs(commits) if commits else None


def _skip_input(examined: ExaminedStream, due: Due) -> RepairStep | None:
    epochs = _due_epochs(due, RepairKind.SKIP_INPUT)
    lost = tuple(file for file in examined.lost_input if file.epoch in epochs)
    return SkipInput(lost) if lost else None


def _due_epochs(due: Due, kind: RepairKind) -> set[int]:
    return {epoch for finding in due.get(kind, ()) for epoch in finding.epochs}


def _end_primary(examined: ExaminedStream, due: Due) -> RepairStep | None:
    """Only while the source has all input: otherwise no other replica could rebuild its state."""
    if examined.primary is None or not examined.may_replay or RepairKind.RESTART_PRIMARY not in due:
        return None
    return EndPrimary(examined.primary)


def _set_aside_snapshots(examined: ExaminedStream, due: Due) -> RepairStep | None:
    """Which snapshots go: unusable ones, and those that the due repairs must not start from.

    Before the primary is ended, those with its damage go, or the next one would restore it. Before it ships,
    its unusable ones go, because a new snapshot is based on them. Before output is replayed, those after the
    end of the table go, because they hide the missing epochs.
    """
    unusable = {snapshot.id: snapshot for snapshot in examined.snapshots if not snapshot.good}
    going = set(_due_snapshots(due, RepairKind.SET_ASIDE_SNAPSHOTS, unusable))
    if RepairKind.REBUILD_STATE in due:
        going |= set(unusable)
    if RepairKind.RESTART_PRIMARY in due:
        going |= {snapshot.id for snapshot in unusable.values() if snapshot.state_damage}
    if RepairKind.SHIP_SNAPSHOT in due:
        primary = examined.primary
        going |= {snapshot.id for snapshot in unusable.values() if snapshot.replica == primary}
    if RepairKind.REPLAY_OUTPUT in due:
        first = min(examined.records.unwritten, default=examined.records.last_decided + 1)
        going |= {snapshot.id for snapshot in examined.snapshots if snapshot.epoch >= first}
    ordered = tuple(snapshot.id for snapshot in examined.snapshots if snapshot.id in going)
    return SetAsideSnapshots(ordered) if ordered else None


def _enter_snapshots(examined: ExaminedStream, due: Due) -> RepairStep | None:
    snapshots = (snapshot.id for snapshot in examined.snapshots)
    ids = _due_snapshots(due, RepairKind.ENTER_SNAPSHOTS, snapshots)
    return EnterSnapshots(ids) if ids else None


def _mark_snapshots(examined: ExaminedStream, due: Due) -> RepairStep | None:
    ids = _due_snapshots(due, RepairKind.MARK_SNAPSHOTS, examined.without_manifest)
    return MarkSnapshots(ids) if ids else None


def _due_snapshots(due: Due, kind: RepairKind, ids: Iterable[str]) -> tuple[str, ...]:
    """Those of the snapshots that a repair is due for."""
    places = {finding.where for finding in due.get(kind, ())}
    return tuple(snapshot_id for snapshot_id in ids if place_of(snapshot_id) in places)


def _set_aside_leftovers(examined: ExaminedStream, due: Due) -> RepairStep | None:
    findings = due.get(RepairKind.SET_ASIDE_LEFTOVERS, ())
    staged = any(finding.kind is FindingKind.LEFTOVER_STAGING for finding in findings)
    places = {finding.where for finding in findings}
    paths = tuple(
        folder.path
        for folder in examined.leftovers
        if (staged if folder.staging else folder.path in places)
    )
    return SetAsideLeftovers(paths) if paths else None


def _bring_back(examined: ExaminedStream, due: Due) -> RepairStep | None:
    """Only after a repair has ended the primary: other failures are the recovery sensor's."""
    return BringBack() if examined.wanted and examined.ended_by_doctor else None


def _ship_snapshot(examined: ExaminedStream, due: Due) -> RepairStep | None:
    return ShipSnapshot() if RepairKind.SHIP_SNAPSHOT in due else None


_IN_ORDER: tuple[Callable[[ExaminedStream, Due], RepairStep | None], ...] = (
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
