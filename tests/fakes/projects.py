"""A project whose control store is real, whose snapshots are in memory and whose drivers never start."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from holdfast.ft_policies.errors import HoldfastError
from holdfast.ft_policies.tiers import SECONDARY, Tier
from holdfast.ft_policies.timings import Timings
from holdfast.resources.clock import SYSTEM_CLOCK, Clock
from holdfast.resources.control_store.records import ReplicaState
from holdfast.resources.object_store.embedded import EmbeddedS3
from holdfast.resources.process import Launcher, ProcessHandle, launch
from holdfast.resources.project import Project, open_project
from holdfast.resources.vault.vault import SnapshotVault
from tests.builders.projects import a_project, stream_yaml
from tests.builders.streams import (
    CLICKS,
    PATIENT,
    STANDS_BY,
    a_primary,
    a_secondary,
    a_wanted_stream,
)
from tests.fakes.object_store import InMemoryObjectStore


@dataclass
class SimulatedLauncher:
    """Launches as simulated drivers do while there are any, see `tests.fakes.drivers`."""

    launcher: Launcher = launch

    def __call__(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        output: Path,
        environment: Mapping[str, str],
    ) -> ProcessHandle:
        return self.launcher(command, folder=folder, output=output, environment=environment)


@dataclass(frozen=True, slots=True)
class SimulatedProject(Project):
    """A project with its object store in memory."""

    objects: InMemoryObjectStore
    object_store_serves: bool
    elsewhere: dict[str, InMemoryObjectStore] = field(default_factory=dict)
    timing_changes: dict[str, float] = field(default_factory=dict)

    def object_store(self) -> InMemoryObjectStore:
        return self.objects

    def timings(self, stream: str) -> Timings:
        """The declared ones, but for what a test has put into `timing_changes`."""
        return replace(self.config.stream(stream).supervision.timings(), **self.timing_changes)

    def vault_elsewhere(self, place: str, stream: str) -> SnapshotVault:
        return SnapshotVault(self.elsewhere[place], stream)

    def embedded_s3(self) -> EmbeddedS3 | None:
        """None, as with an S3 endpoint elsewhere, or one that was never started."""
        return None if self.object_store_serves else EmbeddedS3(self.config.home)

    def ensure_object_store(self) -> None:
        self.objects.calls.append("ensure")


@dataclass
class SimulatedProjects:
    """Opens the simulated project; `failures` come first, one a call."""

    root: Path
    objects: InMemoryObjectStore = field(default_factory=InMemoryObjectStore)
    object_store_serves: bool = True
    failures: list[HoldfastError] = field(default_factory=list)
    timing_changes: dict[str, float] = field(default_factory=dict)
    clock: Clock = SYSTEM_CLOCK
    launch: SimulatedLauncher = field(default_factory=SimulatedLauncher)

    @contextmanager
    def open(self) -> Iterator[SimulatedProject]:
        if self.failures:
            raise self.failures.pop(0)
        with open_project(self.root, tolerant=True) as project:
            yield SimulatedProject(
                project.config,
                project.store,
                self.objects,
                self.object_store_serves,
                timing_changes=self.timing_changes,
                clock=self.clock,
                launch=self.launch,
            )


def simulated_projects(root: Path, *names: str, **changes: object) -> SimulatedProjects:
    """A project of these streams, all alike."""
    files = {name: stream_yaml(name=name, **changes) for name in names or (CLICKS,)}
    return SimulatedProjects(a_project(root, **files))


def projects_with_paused_secondary(root: Path, replica: str) -> SimulatedProjects:
    """A stream whose secondary is there and gives way to a loaded host."""
    projects = simulated_projects(root, tier="active_standby", supervision=PATIENT)
    with projects.open() as project:
        a_wanted_stream(project)
        a_primary(project, "p1")
        cold, paused = SECONDARY[Tier.PASSIVE_STANDBY_COLD], ReplicaState.PAUSED
        a_secondary(project, replica, observed=cold, desired=STANDS_BY, state=paused, epoch=1)
    return projects
