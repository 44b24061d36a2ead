"""A project whose control store is real, whose snapshots are in memory and whose drivers never start."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from holdfast.configs.project import ProjectConfig
from holdfast.ft_policies.errors import HoldfastError
from holdfast.ft_policies.tiers import PRIMARY, SECONDARY, Switches, Tier
from holdfast.ft_policies.timings import Timings
from holdfast.orchestration.playbooks.launch import declare
from holdfast.resources.control_store.records import (
    DesiredState,
    EpochProposal,
    LedgerEntry,
    ReplicaRow,
    ReplicaState,
    Slot,
)
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.object_store.embedded import EmbeddedS3
from holdfast.resources.process import HOST, ProcessHandle
from holdfast.resources.project import Project
from holdfast.resources.vault.vault import SnapshotVault
from tests.fakes.declared import a_project, written
from tests.fakes.object_store import InMemoryObjectStore

CLICKS = "clicks"
PATIENT = {"heartbeat": "1s", "lease": "60s"}  # no test is too slow to be alive
STANDS_BY = SECONDARY[Tier.ACTIVE_STANDBY]


@dataclass(frozen=True, slots=True)
class SimulatedWorld(Project):
    """A world with its object store in memory."""

    objects: InMemoryObjectStore
    object_store_serves: bool
    elsewhere: dict[str, InMemoryObjectStore] = field(default_factory=dict)
    timing_changes: dict[str, float] = field(default_factory=dict)

    def object_store(self) -> InMemoryObjectStore:
        return self.objects

    def timings(self, stream: str) -> Timings:
        """The declared ones, but for what a test has put into `timing_changes`."""
        return replace(self.config.stream(stream).supervision.timings(), **self.timing_changes)

    def vault_elsewhere(self, url: str, stream: str) -> SnapshotVault:
        return SnapshotVault(self.elsewhere[url], stream)

    def embedded_s3(self) -> EmbeddedS3 | None:
        """None, as with an S3 endpoint elsewhere, or one that was never started."""
        return None if self.object_store_serves else EmbeddedS3(self.config.home)

    def ensure_object_store(self) -> None:
        self.objects.calls.append("ensure")


@dataclass
class SimulatedWorlds:
    """Opens the simulated world; `failures` come first, one a call."""

    root: Path
    objects: InMemoryObjectStore = field(default_factory=InMemoryObjectStore)
    object_store_serves: bool = True
    failures: list[HoldfastError] = field(default_factory=list)
    timing_changes: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def open(self) -> Iterator[SimulatedWorld]:
        if self.failures:
            raise self.failures.pop(0)
        project = ProjectConfig.load(self.root)
        with ControlStore.open(project.control_url) as store:
            yield SimulatedWorld(
                project,
                store,
                self.objects,
                self.object_store_serves,
                timing_changes=self.timing_changes,
            )


def simulated_worlds(root: Path, *names: str, **changes: object) -> SimulatedWorlds:
    """A project of these streams, all alike."""
    files = {name: written(name=name, **changes) for name in names or (CLICKS,)}
    return SimulatedWorlds(a_project(root, **files))


def a_wanted_stream(world: Project, name: str = CLICKS) -> None:
    """Declared, and people want it to run."""
    declare(world.config, world.store, name)
    world.store.streams.desire(name, DesiredState.RUNNING)


def a_primary(
    world: Project,
    replica: str,
    name: str = CLICKS,
    *,
    alive: bool = True,
    folder: Path | None = None,
) -> ReplicaRow:
    """A primary whose process is this one, or one that ended long ago."""
    store = world.store
    registered = store.replicas.register(
        id=replica,
        stream=name,
        slot=Slot.PRIMARY,
        desired=PRIMARY,
        host=HOST,
        folder=str(folder or world.config.home / "replicas" / replica),
    )
    assert registered is not None, "the slot is taken"
    born = ProcessHandle.this().started_at if alive else 1.0
    store.replicas.launched(replica, pid=os.getpid(), pid_started_at=born)
    return a_heartbeat(world, replica, epoch=0)


def a_secondary(
    world: Project,
    replica: str = "s1",
    name: str = CLICKS,
    *,
    observed: Switches = STANDS_BY,
    desired: Switches | None = None,
    state: ReplicaState = ReplicaState.RUNNING,
    epoch: int | None = 0,
    alive: bool = True,
) -> ReplicaRow:
    """A secondary on another host, or one whose process on this host is gone.

    It desires what it has unless told otherwise.
    """
    store = world.store
    registered = store.replicas.register(
        id=replica,
        stream=name,
        slot=Slot.SECONDARY,
        desired=observed if desired is None else desired,
        host="elsewhere" if alive else HOST,
        folder=str(world.config.home / "replicas" / replica),
    )
    assert registered is not None, "the slot is taken"
    store.replicas.launched(replica, pid=os.getpid(), pid_started_at=1.0)
    return a_heartbeat(world, replica, epoch=epoch, observed=observed, state=state)


def worlds_with_a_paused_secondary(root: Path, replica: str) -> SimulatedWorlds:
    """A stream whose secondary is there and gives way to a loaded host."""
    worlds = simulated_worlds(root, tier="active_standby", supervision=PATIENT)
    with worlds.open() as world:
        a_wanted_stream(world)
        a_primary(world, "p1")
        cold, paused = SECONDARY[Tier.PASSIVE_STANDBY_COLD], ReplicaState.PAUSED
        a_secondary(world, replica, observed=cold, desired=STANDS_BY, state=paused, epoch=1)
    return worlds


def a_heartbeat(
    world: Project,
    replica: str,
    *,
    epoch: int | None,
    observed: Switches = PRIMARY,
    state: ReplicaState = ReplicaState.RUNNING,
) -> ReplicaRow:
    """A sign of life of one that has seen all that is desired."""
    row = world.store.replicas.get(replica)
    return world.store.replicas.heartbeat(
        replica,
        state=state,
        observed=observed,
        observed_generation=0 if row is None else row.generation,
        snapshot_served=0,
        epoch=epoch,
    )


def a_dead_primary(world: Project, replica: str = "r1", name: str = CLICKS) -> None:
    """A stream that should run and whose driver is gone."""
    a_wanted_stream(world, name)
    a_primary(world, replica, name, alive=False)


def committed(world: Project, epochs: int, *, name: str = CLICKS, rows: int = 10) -> None:
    """Epochs that were decided and committed, from the first one on."""
    for epoch in range(epochs):
        decided(world, epoch, name=name)
        world.store.ledger.commit(
            LedgerEntry(
                stream=name, epoch=epoch, replica="r1", token=1, rows=rows, digest=f"d{epoch}"
            )
        )


def decided(world: Project, epoch: int, *, name: str = CLICKS) -> None:
    """An epoch that is in the epoch log."""
    world.store.epochs.propose(
        EpochProposal(
            stream=name,
            epoch=epoch,
            start=epoch,
            end=epoch + 1,
            input=None,
            rows=10,
            token=1,
            proposer="r1",
        )
    )
