"""A stopped stream that is well, with a table and snapshots, and the ways in which it can be damaged."""

from pathlib import Path

import sqlalchemy as sa

from holdfast.ft_policies.doctor.findings import FindingKind as Kind, RepairKind as Mend
from holdfast.observation.doctor.examine import diagnose_stream
from holdfast.orchestration.playbooks.launch import declare
from holdfast.orchestration.playbooks.repair.repair import Repair
from holdfast.resources.control_store.records import ReplicaRow
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.project import Project
from tests.builders.checkpoints import StateKind, SyntheticCheckpoint
from tests.builders.control_rows import record_snapshot
from tests.builders.delta_tables import a_commit, a_table, words
from tests.builders.streams import CLICKS, PATIENT, a_heartbeat, a_primary, commit_epochs
from tests.fakes.clocks import SleeplessClock
from tests.fakes.projects import SimulatedProject, SimulatedProjects, simulated_projects

RUN = "cli-00000001"
EPOCHS = 6
SHIPPED = (1, 3)
REPLICA = "clicks-0000000a"


def doctor_projects(root: Path, **changes: object) -> SimulatedProjects:
    """A project of one stream; the doctor looks again at once."""
    projects = simulated_projects(root, **{"supervision": PATIENT, **changes})
    projects.clock = SleeplessClock()
    return projects


def a_stopped_stream(
    project: SimulatedProject, folder: Path, *, kind: StateKind = StateKind.HDFS
) -> SyntheticCheckpoint:
    """Epochs 0 to 5 in epoch log, ledger and table, snapshots after 1 and 3; its checkpoint."""
    declare(project.config, project.store, CLICKS)
    commit_epochs(project, EPOCHS)
    table = project.config.table_path(CLICKS)
    a_table(table)
    for epoch in range(EPOCHS):
        a_commit(table, epoch, words(10))
    checkpoint = SyntheticCheckpoint(folder, kind=kind)
    for epoch in SHIPPED:
        checkpoint.commit(epoch - checkpoint.epoch)
        ship(project, checkpoint)
    checkpoint.commit(EPOCHS - 1 - checkpoint.epoch)
    return checkpoint


def ship(project: Project, checkpoint: SyntheticCheckpoint, replica: str = REPLICA) -> None:
    """Ship what it has committed last, on what was shipped before."""
    vault = project.vault(CLICKS)
    before = vault.list()
    manifest = vault.ship(
        checkpoint.root,
        checkpoint.epoch,
        token=1,
        replica=replica,
        parent=vault.manifest(before[0].id) if before else None,
        conf={},
        created_at=project.store.now(),
        scratch=project.config.home / "scratch",
    ).manifest
    record_snapshot(project.store, vault, CLICKS, manifest.id)


def a_stream_with_live_primary(
    project: SimulatedProject, *, kind: StateKind = StateKind.HDFS, replicas: Path | None = None
) -> SyntheticCheckpoint:
    """The same with a live primary (this process), while the desired state is stopped."""
    folder = (replicas or project.config.home / "replicas") / REPLICA
    checkpoint = a_stopped_stream(project, folder / "checkpoints" / "aaaa0001", kind=kind)
    a_primary(project, REPLICA, folder=folder)
    a_heartbeat(project, REPLICA, epoch=EPOCHS - 1)
    return checkpoint


def replica_row(project: SimulatedProject) -> ReplicaRow:
    """The primary's row."""
    row = project.store.replicas.get(REPLICA)
    assert row is not None
    return row


def snapshot_id(epoch: int) -> str:
    """The snapshot after an epoch."""
    return f"{epoch:012d}-1-{REPLICA}"


def pack_key(project: SimulatedProject, epoch: int) -> str:
    """The pack that was shipped with the snapshot after an epoch."""
    packs = project.objects.list(f"{CLICKS}/packs/")
    (key,) = [pack.key for pack in packs if snapshot_id(epoch) in pack.key]
    return key


def manifest_key(epoch: int) -> str:
    """The manifest of the snapshot after an epoch."""
    return f"{CLICKS}/manifests/{snapshot_id(epoch)}.json.gz"


def finding_kinds(project: SimulatedProject, *, deep: bool = False) -> list[Kind]:
    """What the doctor finds."""
    return [finding.kind for finding in diagnose_stream(project, CLICKS, deep=deep).findings]


def run_repair(
    project: SimulatedProject, chosen: Mend | None = None, *, run: str = RUN, deep: bool = False
) -> list[str]:
    """Carry a repair out; the names of its steps."""
    repairing = Repair(project=project, stream=CLICKS, run=run, chosen=chosen, deep=deep)
    return [performed.name for performed in repairing.steps()]


def delete_epoch(store: ControlStore, table: sa.Table, epoch: int) -> None:
    """Lose the row of an epoch."""
    statement = sa.delete(table).where(table.c.stream == CLICKS, table.c.epoch == epoch)
    store._database.execute(statement)


def shorten(file: Path) -> None:
    """Lose the last byte."""
    file.write_bytes(file.read_bytes()[:-1])


def everything(project: SimulatedProject) -> dict[str, object]:
    """All that a repair may change."""
    home = project.config.home
    return {
        "objects": {key: body for key, (body, _) in project.objects.objects.items()},
        "rows": project.store.snapshots.of(CLICKS, available_only=False),
        "ledger": [
            (entry.epoch, entry.rows, entry.digest)
            for entry in project.store.ledger.between(CLICKS, 0, 99)
        ],
        "files": sorted(
            str(p) for p in home.rglob("*") if p.is_file() and "control.db" not in p.name
        ),
    }
