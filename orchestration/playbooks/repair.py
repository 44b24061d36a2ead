"""The repair playbook, performed: look, take the one step that is due, look again."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assets.examination.checkpoint import current_checkpoint
from assets.examination.examining import ENDED, Diagnosis, diagnosed
from assets.examination.snapshots import packs_of
from ft_policies.doctor.findings import RepairKind
from ft_policies.doctor.repairing import (
    BringBack,
    EndPrimary,
    EnterEpochs,
    EnterSnapshots,
    MarkSnapshots,
    SetAsideLeftovers,
    SetAsideSnapshots,
    ShipSnapshot,
    SkipInput,
    Step,
    due_repairs,
    next_step,
    plan,
)
from ft_policies.errors import PermanentError
from orchestration.playbooks.aside import Aside
from orchestration.playbooks.performing import Journaled, Performed, perform
from orchestration.playbooks.recover import Recovery
from orchestration.playbooks.snapshot import snapshot_now
from resources.control.records import (
    LedgerEntry,
    ReplicaState,
    SnapshotRow,
    SnapshotState,
)
from resources.project import Project
from resources.vault.manifest import UnusableSnapshotError
from resources.vault.vault import SnapshotVault

PLAYBOOK = "repair"

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Repairing:
    """One repair of one stream; without a choice each finding gets the best that is offered."""

    world: Project
    stream: str
    run: str
    chosen: RepairKind | None
    deep: bool = False
    beat: Callable[[], None] = lambda: None
    _aside: Aside = field(init=False)

    def __post_init__(self) -> None:
        self._aside = Aside(self.world, self.stream, self.run)

    def steps(self) -> Iterator[Performed[Step]]:
        """Yield each step once it has been carried out, until nothing that was chosen is found."""
        journal = Journaled(
            store=self.world.store, stream=self.stream, playbook=PLAYBOOK, run=self.run
        )
        return perform(self._decide, self._act, journal)

    def _decide(self) -> Step | None:
        found = diagnosed(self.world, self.stream, deep=self.deep)
        return next_step(found.examined, found.findings, self.chosen)

    def _act(self, step: Step) -> Mapping[str, Any]:
        match step:
            case SetAsideSnapshots() | EnterSnapshots() | MarkSnapshots():
                return self._act_on_snapshots(step)
            case EnterEpochs():
                return self._enter_epochs(step)
            case SkipInput():
                return self._skip(step)
            case SetAsideLeftovers():
                return {"folders": self._aside.set_folders(step.paths)}
            case EndPrimary():
                return self._end(step.primary)
            case BringBack():
                return self._bring_back()
            case ShipSnapshot():
                row = snapshot_now(self.world, self.stream)
                return {"snapshot": None if row is None else row.id}

    def _act_on_snapshots(
        self, step: SetAsideSnapshots | EnterSnapshots | MarkSnapshots
    ) -> Mapping[str, Any]:
        self._aside.keep_rows(step.snapshots)
        match step:
            case SetAsideSnapshots():
                return self._set_aside(step.snapshots)
            case EnterSnapshots():
                return self._enter_snapshots(step.snapshots)
            case MarkSnapshots():
                self._mark(step.snapshots, "its manifest is gone")
                return {}

    def _set_aside(self, snapshots: tuple[str, ...]) -> Mapping[str, Any]:
        """The catalogue first: a primary builds its next snapshot on none that is marked."""
        self._mark(snapshots, f"set aside by {self.run}")
        vault = self.world.vault(self.stream)
        packs = [packs_of(self.stream) + name for name in exclusive_packs(vault, set(snapshots))]
        keys = [vault.manifest_key(one) for one in snapshots]
        return {"objects": self._aside.set_objects([*keys, *packs])}

    def _mark(self, snapshots: tuple[str, ...], reason: str) -> None:
        for one in snapshots:
            self.world.store.snapshots.mark(self.stream, one, SnapshotState.DAMAGED, reason)

    def _enter_snapshots(self, snapshots: tuple[str, ...]) -> Mapping[str, Any]:
        vault = self.world.vault(self.stream)
        for one in snapshots:
            self.world.store.snapshots.record(row_of(vault, self.stream, one))
        return {"rows": len(snapshots)}

    def _enter_epochs(self, step: EnterEpochs) -> Mapping[str, Any]:
        self._aside.keep_epochs(step.commits)
        store = self.world.store
        history = store.histories.current(self.stream)
        for one in step.commits:
            assert one.rows is not None, "no repair is offered otherwise"  # noqa: S101
            store.ledger.commit(
                LedgerEntry(
                    stream=self.stream,
                    epoch=one.epoch,
                    replica=one.replica,
                    token=one.token,
                    rows=one.rows,
                    digest=one.digest,
                ),
                history=history,
            )
        return {"epochs": len(step.commits)}

    def _skip(self, step: SkipInput) -> Mapping[str, Any]:
        lost = defaultdict[int, list[str]](list)
        for one in step.lost:
            lost[one.epoch].append(one.file)
        self._aside.keep_gap()
        return {"rows_lost": self.world.store.gaps.open(self.stream, lost, run=self.run)}

    def _end(self, primary: str) -> Mapping[str, Any]:
        """Its checkpoint is kept first: whoever takes its place sweeps it away."""
        store, kept = self.world.store, self._keep_checkpoint(primary)
        lease = store.leases.get(self.stream)
        holds = lease is not None and lease.holder == primary
        fenced = lease is not None and holds and store.leases.fence(self.stream, token=lease.token)
        reason = f"{ENDED} ({self.run}): its checkpoint is damaged"
        store.replicas.end(primary, ReplicaState.FENCED, reason)
        return {"lease_taken": bool(fenced), "checkpoint_kept": kept}

    def _keep_checkpoint(self, primary: str) -> bool:
        """Whether it is kept: a disk that is full, or knows no links, keeps nobody from the repair."""
        row = self.world.store.replicas.get(primary)
        checkpoint = None if row is None else current_checkpoint(row)
        if row is None or checkpoint is None:
            return False
        try:
            self._aside.keep_folder(checkpoint, below=Path(row.folder).parent)
        except OSError as error:
            log.warning("the checkpoint of %s is not kept: %s", primary, error)
            return False
        return True

    def _bring_back(self) -> Mapping[str, Any]:
        recovery = Recovery(
            world=self.world,
            stream=self.stream,
            run=self.run,
            playbook=PLAYBOOK,
            beat=self.beat,
        )
        return {"steps": ", ".join(performed.name for performed in recovery.steps())}


def repair_plan(found: Diagnosis, chosen: RepairKind | None) -> list[Step]:
    """What a repair would do, as far as one look can tell; a choice that mends nothing is an error."""
    if chosen is not None and chosen not in due_repairs(found.findings, chosen):
        offered = {repair.kind for one in found.findings for repair in one.repairs}
        told = ", ".join(sorted(offered)) or "none"
        raise PermanentError(
            f"nothing that was found in {found.examined.stream} is mended by {chosen}",
            hint=f"repairs that are offered: {told}",
        )
    return plan(found.examined, found.findings, chosen)


def exclusive_packs(vault: SnapshotVault, going: set[str]) -> list[str]:
    """The packs that only these snapshots name; none if another manifest cannot be read."""
    theirs: set[str] = set()
    others: set[str] = set()
    for record in vault.list():
        try:
            named = set(vault.manifest(record.id).packs)
        except UnusableSnapshotError:
            if record.id not in going:
                return []
            continue
        (theirs if record.id in going else others).update(named)
    return sorted(theirs - others)


def row_of(vault: SnapshotVault, stream: str, snapshot: str) -> SnapshotRow:
    """What the catalogue can be told from a manifest alone; what shipping took is not in it."""
    manifest = vault.manifest(snapshot)
    return SnapshotRow(
        stream=stream,
        id=manifest.id,
        epoch=manifest.epoch,
        token=manifest.token,
        replica=manifest.replica,
        parent=manifest.parent,
        manifest_key=vault.manifest_key(manifest.id),
        files=len(manifest.files),
        total_bytes=manifest.state_bytes,
        new_bytes=0,
        requests=0,
        seconds=0.0,
        created_at=manifest.created_at,
        history=manifest.history,
    )
