"""A project with a stream that has a past, written straight into its control store."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
from holdfast.resources.process import HOST, ProcessHandle
from holdfast.resources.project import Project, open_project
from tests.fakes.declared import a_project, written

STREAM = "clicks"
REPLICA = "clicks-1"


@contextmanager
def a_world(root: Path) -> Iterator[Project]:
    """A project with one declared stream."""
    if not (root / "configs").exists():
        a_project(root, clicks=written())
    with open_project(root) as world:
        yield world


def a_running_stream(world: Project, *, epochs: int = 5, committed: int = 3) -> None:
    """A primary (this process) that has committed some of the decided epochs."""
    declare(world.config, world.store, STREAM)
    world.store.streams.desire(STREAM, DesiredState.RUNNING)
    world.store.replicas.register(
        id=REPLICA,
        stream=STREAM,
        slot=Slot.PRIMARY,
        desired=PRIMARY,
        host=HOST,
        folder=str(world.config.home / "replicas" / REPLICA),
    )
    this = ProcessHandle.this()
    world.store.replicas.launched(REPLICA, pid=this.pid, pid_started_at=this.started_at)
    decide(world, epochs)
    for epoch in range(committed):
        commit(world, epoch)
    beat(world, PRIMARY, epoch=committed - 1)
    world.store.samples.write(
        [
            Sample(stream=STREAM, replica=REPLICA, name=SampleName.STATE_ROWS, value=40.0),
            Sample(stream=STREAM, replica=REPLICA, name=SampleName.STATE_BYTES, value=1234.0),
            Sample(stream=STREAM, replica=REPLICA, name=SampleName.LAG_ROWS, value=7.0),
        ]
    )


def decide(world: Project, epochs: int) -> None:
    """Decide epochs of 100 rows each."""
    origin = world.store.now() - epochs
    for epoch in range(epochs):
        world.store.epochs.propose(
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


def commit(world: Project, epoch: int, *, rows: int = 10) -> None:
    """Enter an epoch into the ledger."""
    world.store.ledger.commit(
        LedgerEntry(
            stream=STREAM, epoch=epoch, replica=REPLICA, token=1, rows=rows, digest=f"d{epoch}"
        )
    )


def beat(world: Project, observed: Switches, *, epoch: int) -> None:
    """One heartbeat of the replica."""
    world.store.replicas.heartbeat(
        REPLICA,
        state=ReplicaState.RUNNING,
        observed=observed,
        observed_generation=1,
        snapshot_served=0,
        epoch=epoch,
    )


def a_snapshot(world: Project, epoch: int) -> str:
    """An entry of the catalogue."""
    name = f"{epoch:012d}-1-{REPLICA}"
    world.store.snapshots.record(
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
