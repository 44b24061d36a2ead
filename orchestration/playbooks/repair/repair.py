"""The repair playbook: examine, take the one step that is due, examine again."""

import logging
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from holdfast.ft_policies.doctor.findings import RepairKind
from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.playbooks.repair import (
    BringBack,
    EndPrimary,
    EnterEpochs,
    EnterSnapshots,
    MarkSnapshots,
    RepairFacts,
    RepairStep,
    SetAsideLeftovers,
    SetAsideSnapshots,
    ShipSnapshot,
    SkipInput,
    next_step,
)
from holdfast.observation.doctor.checkpoint import current_checkpoint
from holdfast.observation.doctor.examine import Diagnosis, diagnose_stream
from holdfast.observation.doctor.snapshots import packs_prefix
from holdfast.orchestration.playbooks.base import (
    InnerSteps,
    StepResult,
    StreamPlaybook,
    run_playbook,
)
from holdfast.orchestration.playbooks.lifecycle import snapshot_now
from holdfast.orchestration.playbooks.recover import Recover
from holdfast.orchestration.playbooks.repair.quarantine import Quarantine
from holdfast.resources.control_store.records import (
    EndedBy,
    LedgerEntry,
    SnapshotState,
)
from holdfast.resources.vault.objects.manifest import UnusableSnapshotError
from holdfast.resources.vault.records import build_snapshot_row
from holdfast.resources.vault.vault import SnapshotVault

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired(StepResult):
    """How many objects, folders, rows or epochs a step has moved or written."""

    objects: int | None = None
    folders: int | None = None
    rows: int | None = None
    epochs: int | None = None
    rows_lost: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimaryEnded(StepResult):
    """Whether the lease was taken, and whether the checkpoint could be kept."""

    lease_taken: bool
    checkpoint_kept: bool


@dataclass(frozen=True, slots=True)
class SnapshotShipped(StepResult):
    """The shipped snapshot; `None` if no epoch was committed yet."""

    snapshot: str | None


@dataclass(kw_only=True)
class Repair(StreamPlaybook[RepairFacts, RepairStep]):
    """One repair of one stream; without a chosen kind each finding gets the best one that is offered."""

    name: ClassVar = "repair"
    chosen: RepairKind | None = None
    deep: bool = False
    _quarantine: Quarantine = field(init=False)

    def __post_init__(self) -> None:
        self._quarantine = Quarantine(self.project, self.stream, self.run)

    def observe(self) -> RepairFacts:
        return self._facts(diagnose_stream(self.project, self.stream, deep=self.deep))

    def preview(self) -> RepairFacts:
        return self.preview_of(diagnose_stream(self.project, self.stream, deep=self.deep))

    def preview_of(self, diagnosis: Diagnosis) -> RepairFacts:
        """The facts of a given diagnosis; raises if the chosen repair fixes none of its findings."""
        facts, chosen = self._facts(diagnosis), self.chosen
        if chosen is not None and chosen not in facts.due:
            offered = {repair.kind for row in diagnosis.findings for repair in row.repairs}
            raise PermanentError(
                f"{chosen} repairs none of the findings of {self.stream}",
                hint=f"choose one of the offered repairs: {', '.join(sorted(offered)) or 'none'}",
            )
        return facts

    def decide(self, facts: RepairFacts) -> RepairStep | None:
        return next_step(facts)

    def act(self, step: RepairStep) -> StepResult:  # noqa: C901 (one case per step)
        match step:
            case SetAsideSnapshots():
                return self._set_aside(step.snapshots)
            case EnterSnapshots():
                return self._enter_snapshots(step.snapshots)
            case MarkSnapshots():
                return self._mark_snapshots(step.snapshots)
            case EnterEpochs():
                return self._enter_epochs(step)
            case SkipInput():
                return self._skip(step)
            case SetAsideLeftovers():
                return Repaired(folders=self._quarantine.move_folders(step.paths))
            case EndPrimary():
                return self._end(step.primary)
            case BringBack():
                return self._bring_back()
            case ShipSnapshot():
                row = snapshot_now(self.project, self.stream)
                return SnapshotShipped(None if row is None else row.id)

    def _facts(self, diagnosis: Diagnosis) -> RepairFacts:
        return RepairFacts(
            examined=diagnosis.examined, findings=diagnosis.findings, chosen=self.chosen
        )

    def _mark_snapshots(self, snapshots: tuple[str, ...]) -> StepResult:
        self._quarantine.keep_rows(snapshots)
        self._mark(snapshots, "its manifest is gone")
        return StepResult()

    def _set_aside(self, snapshots: tuple[str, ...]) -> Repaired:
        """Mark the snapshots first, then move them: a primary never builds on a marked one."""
        self._quarantine.keep_rows(snapshots)
        self._mark(snapshots, f"set aside by {self.run}")
        vault = self.project.vault(self.stream)
        packs = [
            packs_prefix(self.stream) + name for name in exclusive_packs(vault, set(snapshots))
        ]
        keys = [vault.manifest_key(snapshot) for snapshot in snapshots]
        return Repaired(objects=self._quarantine.move_objects([*keys, *packs]))

    def _mark(self, snapshots: tuple[str, ...], reason: str) -> None:
        for snapshot in snapshots:
            self.project.store.snapshots.mark(self.stream, snapshot, SnapshotState.DAMAGED, reason)

    def _enter_snapshots(self, snapshots: tuple[str, ...]) -> Repaired:
        self._quarantine.keep_rows(snapshots)
        vault = self.project.vault(self.stream)
        for snapshot in snapshots:
            manifest, key = vault.manifest(snapshot), vault.manifest_key(snapshot)
            self.project.store.snapshots.record(build_snapshot_row(self.stream, manifest, key))
        return Repaired(rows=len(snapshots))

    def _enter_epochs(self, step: EnterEpochs) -> Repaired:
        self._quarantine.keep_epochs(step.commits)
        store = self.project.store
        history = store.restores.current_history(self.stream)
        for commit in step.commits:
            assert commit.rows is not None, "no repair is offered otherwise"  # noqa: S101
            store.ledger.commit(
                LedgerEntry(
                    stream=self.stream,
                    epoch=commit.epoch,
                    replica=commit.replica,
                    token=commit.token,
                    rows=commit.rows,
                    digest=commit.digest,
                ),
                history=history,
            )
        return Repaired(epochs=len(step.commits))

    def _skip(self, step: SkipInput) -> Repaired:
        lost = defaultdict[int, list[str]](list)
        for file in step.lost:
            lost[file.epoch].append(file.file)
        self._quarantine.keep_gap()
        return Repaired(rows_lost=self.project.store.gaps.open(self.stream, lost, run=self.run))

    def _end(self, primary: str) -> PrimaryEnded:
        """End a primary with a damaged checkpoint, which is kept first: the next primary removes it."""
        kept = self._keep_checkpoint(primary)
        reason = f"ended by {self.run}: its checkpoint is damaged"
        taken = self.project.store.takeovers.fence(
            primary, stream=self.stream, reason=reason, by=EndedBy.REPAIR
        )
        return PrimaryEnded(lease_taken=bool(taken), checkpoint_kept=kept)

    def _keep_checkpoint(self, primary: str) -> bool:
        """Keep the checkpoint, if possible: a full disk, or one without links, does not stop the repair."""
        row = self.project.store.replicas.get(primary)
        checkpoint = None if row is None else current_checkpoint(row)
        if row is None or checkpoint is None:
            return False
        try:
            self._quarantine.keep_folder(checkpoint, below=Path(row.folder).parent)
        except OSError as error:
            log.warning("the checkpoint of %s was not kept: %s", primary, error)
            return False
        return True

    def _bring_back(self) -> InnerSteps:
        recover = Recover(self.project, self.stream, self.run, keep_alive=self.keep_alive)
        journal = replace(recover.journal(), playbook=self.name)
        return InnerSteps(list(run_playbook(recover, journal)))


def exclusive_packs(vault: SnapshotVault, going: set[str]) -> list[str]:
    """The packs that only these snapshots use; none if another manifest cannot be read."""
    exclusive: set[str] = set()
    others: set[str] = set()
    for record in vault.list():
        try:
            packs = set(vault.manifest(record.id).packs)
        except UnusableSnapshotError:
            if record.id not in going:
                return []
            continue
        (exclusive if record.id in going else others).update(packs)
    return sorted(exclusive - others)
