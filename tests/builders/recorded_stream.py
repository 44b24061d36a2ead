"""A project with a stream that has a past, written straight into its control store."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from deltalake import DeltaTable

from holdfast.ft_policies.tiers import PRIMARY, Switches
from holdfast.orchestration.playbooks.launch import declare
from holdfast.resources.control_store.records import (
    DesiredState,
    EpochProposal,
    LedgerEntry,
    ReplicaState,
    Sample,
    Slot,
    SnapshotRow,
)
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.schema import epochs as log
from holdfast.resources.process import HOST, ProcessHandle
from holdfast.resources.project import Project, open_project
from holdfast.resources.vault.vault import SnapshotVault
from holdfast.streaming.sinks.delta.lineage import writer
from tests.builders.checkpoints import SyntheticCheckpoint
from tests.builders.delta_tables import a_commit, a_table, words
from tests.builders.projects import a_project, stream_yaml
from tests.builders.streams import CLICKS, commit_epochs

STREAM = "clicks"
REPLICA = "clicks-1"


@contextmanager
def an_open_project(root: Path) -> Iterator[Project]:
    """A project with one declared stream."""
    if not (root / "configs").exists():
        a_project(root, clicks=stream_yaml())
    with open_project(root) as project:
        yield project


def a_running_stream(
    project: Project, *, epochs: int = 5, committed: int = 3, decided_ago: float = 0.0
) -> None:
    """A primary (this process) that has committed some of the decided epochs."""
    declare(project.config, project.store, STREAM)
    project.store.streams.desire(STREAM, DesiredState.RUNNING)
    project.store.replicas.register(
        id=REPLICA,
        stream=STREAM,
        slot=Slot.PRIMARY,
        desired=PRIMARY,
        host=HOST,
        folder=str(project.config.home / "replicas" / REPLICA),
    )
    this = ProcessHandle.this()
    project.store.replicas.record_process(REPLICA, pid=this.pid, pid_started_at=this.started_at)
    decide(project, epochs, ago=decided_ago)
    for epoch in range(committed):
        commit(project, epoch)
    beat(project, PRIMARY, epoch=committed - 1)
    project.store.samples.write(
        [
            Sample(stream=STREAM, replica=REPLICA, name=SampleName.STATE_ROWS, value=40.0),
            Sample(stream=STREAM, replica=REPLICA, name=SampleName.STATE_BYTES, value=1234.0),
        ]
    )
    at = project.store.now()
    project.store.samples.write(
        [
            Sample(stream=STREAM, replica=REPLICA, name=SampleName.LAG_ROWS, value=207.0, at=at),
            Sample(stream=STREAM, replica=REPLICA, name=SampleName.LAG_SECONDS, value=2.5, at=at),
        ]
    )


def decide(project: Project, epochs: int, *, ago: float = 0.0) -> None:
    """Decide epochs of 100 rows each, one a second; with `ago`, the last of them so many seconds ago."""
    origin = project.store.now() - epochs - ago
    for epoch in range(epochs):
        project.store.epochs.propose(
            EpochProposal(
                stream=STREAM,
                epoch=epoch,
                start={"origin": origin, "rows": epoch * 100},
                end={"origin": origin, "rows": epoch * 100 + 100},
                input={"first": epoch * 100, "rows": 100, "start": 1_700_000_000.0},
                rows=100,
                token=1,
                proposer=REPLICA,
            )
        )
    if ago:
        with project.store._database.write() as connection:
            connection.execute(sa.update(log).values(decided_at=origin + 1 + log.c.epoch))


def commit(project: Project, epoch: int, *, rows: int = 10) -> None:
    """Enter an epoch into the ledger."""
    project.store.ledger.commit(
        LedgerEntry(
            stream=STREAM, epoch=epoch, replica=REPLICA, token=1, rows=rows, digest=f"d{epoch}"
        )
    )


def beat(project: Project, observed: Switches, *, epoch: int) -> None:
    """One heartbeat of the replica."""
    project.store.replicas.heartbeat(
        REPLICA,
        state=ReplicaState.RUNNING,
        observed=observed,
        observed_generation=1,
        snapshot_served=0,
        epoch=epoch,
        quiet_seconds=0.0,
    )


def a_snapshot(project: Project, epoch: int) -> str:
    """An entry of the catalogue."""
    name = f"{epoch:012d}-1-{REPLICA}"
    project.store.snapshots.record(
        SnapshotRow(
            stream=STREAM,
            id=name,
            epoch=epoch,
            token=1,
            replica=REPLICA,
            manifest_key=f"{STREAM}/manifests/{name}.json.gz",
            files=12,
            total_bytes=4567,
            new_bytes=123,
            requests=2,
            seconds=0.25,
        )
    )
    return name


EPOCHS = 8
SHIPPED = (1, 4, 6)


def a_restorable_stream(project: Project, *, name: str = CLICKS) -> None:
    """Epochs 0 to 7, a row each, and snapshots after three of them; its desired state is stopped."""
    declare(project.config, project.store, name)
    commit_epochs(project, EPOCHS, name=name, rows=1)
    path = project.config.table_path(name)
    a_table(path)
    for epoch in range(EPOCHS):
        a_commit(path, epoch, words(1, first=epoch), stream=name)
    ship(project.vault(name), project.config.home / "checkpoints" / name)


@contextmanager
def a_restorable_project(root: Path) -> Iterator[Project]:
    """A project of its own with such a stream, on a real S3 endpoint."""
    with an_open_project(root) as project:
        project.ensure_object_store()
        a_restorable_stream(project)
        yield project
        embedded = project.embedded_s3()
        assert embedded is not None
        embedded.stop()


def ship(vault: SnapshotVault, folder: Path) -> None:
    """Snapshots after the epochs that are shipped."""
    checkpoint = SyntheticCheckpoint(folder)
    parent = None
    for epoch in SHIPPED:
        checkpoint.commit(epoch - checkpoint.epoch)
        parent = vault.ship(
            checkpoint.root,
            epoch,
            token=1,
            replica="r1",
            parent=parent,
            conf={},
            created_at=0.0,
            scratch=folder / "scratch",
        ).manifest


def output(project: Project, name: str = CLICKS) -> list[int]:
    """The rows of its table: each is the number of its epoch."""
    return sorted(DeltaTable(project.config.table_path(name)).to_pandas()["count"])


def entries(project: Project, name: str = CLICKS) -> list[int]:
    return [entry.epoch for entry in project.store.ledger.between(name, 0, 99)]


def snapshots(project: Project, name: str = CLICKS) -> list[int]:
    return [record.epoch for record in project.vault(name).list()]


def open_restore(project: Project, history: int, name: str = CLICKS) -> int | None:
    """The newest epoch that a history has in the table, if it may write to it."""
    table = DeltaTable(project.config.table_path(name))
    return table.transaction_version(writer(name, history))
