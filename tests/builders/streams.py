"""Streams of a simulated project: wanted, with replicas, heartbeats and epochs."""

import os
from pathlib import Path

from holdfast.ft_policies.tiers import PRIMARY, SECONDARY, Switches, Tier
from holdfast.orchestration.playbooks.launch import declare
from holdfast.resources.control_store.records import (
    DesiredState,
    EpochProposal,
    LedgerEntry,
    ReplicaRow,
    ReplicaState,
    Slot,
)
from holdfast.resources.process import HOST, ProcessHandle
from holdfast.resources.project import Project

CLICKS = "clicks"


PATIENT = {"heartbeat": "1s", "lease": "60s"}  # no test is too slow to be alive


STANDS_BY = SECONDARY[Tier.ACTIVE_STANDBY]


def a_wanted_stream(project: Project, name: str = CLICKS) -> None:
    """A declared stream whose desired state is running."""
    declare(project.config, project.store, name)
    project.store.streams.desire(name, DesiredState.RUNNING)


def a_primary(
    project: Project,
    replica: str,
    name: str = CLICKS,
    *,
    alive: bool = True,
    folder: Path | None = None,
) -> ReplicaRow:
    """A primary whose process is this one, or one that ended long ago."""
    a_registered_primary(project, replica, name, alive=alive, folder=folder)
    return a_heartbeat(project, replica, epoch=0)


def a_registered_primary(
    project: Project,
    replica: str,
    name: str = CLICKS,
    *,
    alive: bool = True,
    folder: Path | None = None,
) -> ReplicaRow:
    """One that was launched, and has sent no heartbeat yet."""
    store = project.store
    registered = store.replicas.register(
        id=replica,
        stream=name,
        slot=Slot.PRIMARY,
        desired=PRIMARY,
        host=HOST,
        folder=str(folder or project.config.home / "replicas" / replica),
    )
    assert registered is not None, "the slot is taken"
    born = ProcessHandle.this().started_at if alive else 1.0
    store.replicas.record_process(replica, pid=os.getpid(), pid_started_at=born)
    return registered


def a_secondary(
    project: Project,
    replica: str = "s1",
    name: str = CLICKS,
    *,
    observed: Switches = STANDS_BY,
    desired: Switches | None = None,
    state: ReplicaState = ReplicaState.RUNNING,
    epoch: int | None = 0,
    alive: bool = True,
    host: str = HOST,
) -> ReplicaRow:
    """A secondary that has not reported its process, or one whose process is gone or on another host.

    It desires what it has unless said otherwise.
    """
    store = project.store
    registered = store.replicas.register(
        id=replica,
        stream=name,
        slot=Slot.SECONDARY,
        desired=observed if desired is None else desired,
        host=host,
        folder=str(project.config.home / "replicas" / replica),
    )
    assert registered is not None, "the slot is taken"
    if not alive or host != HOST:
        store.replicas.record_process(replica, pid=os.getpid(), pid_started_at=1.0)
    return a_heartbeat(project, replica, epoch=epoch, observed=observed, state=state)


def a_heartbeat(
    project: Project,
    replica: str,
    *,
    epoch: int | None,
    observed: Switches = PRIMARY,
    state: ReplicaState = ReplicaState.RUNNING,
    quiet_seconds: float = 0.0,
) -> ReplicaRow:
    """A sign of life of one that has seen all that is desired, and has finished its epoch this long ago."""
    row = project.store.replicas.get(replica)
    return project.store.replicas.heartbeat(
        replica,
        state=state,
        observed=observed,
        observed_generation=0 if row is None else row.generation,
        snapshot_served=0,
        epoch=epoch,
        quiet_seconds=quiet_seconds,
    )


def a_dead_primary(project: Project, replica: str = "r1", name: str = CLICKS) -> None:
    """A stream that should run and whose driver is gone."""
    a_wanted_stream(project, name)
    a_primary(project, replica, name, alive=False)


def commit_epochs(project: Project, epochs: int, *, name: str = CLICKS, rows: int = 10) -> None:
    """Epochs that were decided and committed, from the first one on."""
    for epoch in range(epochs):
        decide_epoch(project, epoch, name=name)
        project.store.ledger.commit(
            LedgerEntry(
                stream=name, epoch=epoch, replica="r1", token=1, rows=rows, digest=f"d{epoch}"
            )
        )


def decide_epoch(project: Project, epoch: int, *, name: str = CLICKS) -> None:
    """An epoch that is in the epoch log."""
    project.store.epochs.propose(
        EpochProposal(
            stream=name,
            epoch=epoch,
            start={"origin": 0.0, "rows": 10 * epoch},
            end={"origin": 0.0, "rows": 10 * epoch + 10},
            input={"first": 10 * epoch, "rows": 10, "start": 0.0},
            rows=10,
            token=1,
            proposer="r1",
        )
    )
