"""A project that commands, sensors and playbooks act on: its configuration, control store and snapshots."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.configs.declarations.deployment import EmbeddedObjectStore
from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.configs.loading import InvalidConfig, Problem
from holdfast.configs.project import ProjectConfig
from holdfast.configs.project_files import copy_of
from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.timings import Timings
from holdfast.resources.birth import record_birth
from holdfast.resources.clock import SYSTEM_CLOCK, Clock
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.object_store.embedded import EmbeddedS3
from holdfast.resources.object_store.resolve import connector, connector_to_place
from holdfast.resources.object_store.s3 import ObjectStore, S3ObjectStore
from holdfast.resources.private import write_private
from holdfast.resources.process import Launcher, launch
from holdfast.resources.vault.vault import SnapshotVault

if TYPE_CHECKING:
    from holdfast.ft_policies.costs.prices import Prices


@dataclass(frozen=True, slots=True)
class Project:
    """The configuration of a project, the stores that it names, and the clock and launcher of its playbooks."""

    config: ProjectConfig
    store: ControlStore
    clock: Clock = field(default=SYSTEM_CLOCK, kw_only=True)
    launch: Launcher = field(default=launch, kw_only=True)

    def object_store(self) -> ObjectStore:
        """The object store with the snapshots of all streams."""
        connect = connector(self.config.deployment.object_store, self.config.home)
        return S3ObjectStore(connect)

    def vault(self, stream: str) -> SnapshotVault:
        return SnapshotVault(
            self.object_store(),
            stream,
            rolled_back=partial(self.store.migrations.find_rolled_back, stream),
            project_id=self.store.identity.project_id,
        )

    def vault_elsewhere(self, place: str, stream: str) -> SnapshotVault:
        """The snapshots of a stream at a declared place, perhaps of another project."""
        connect = connector(self.config.deployment.object_store, self.config.home)
        declared = self.config.deployment.place(place)
        return SnapshotVault(
            S3ObjectStore(connector_to_place(declared, connect)),
            stream,
            rolled_back=partial(self.store.migrations.find_rolled_back, stream),
        )

    def timings(self, stream: str) -> Timings:
        """The timings of a stream, derived from its `supervision`."""
        return self.config.stream(stream).supervision.timings()

    def prices(self, stream: StreamDeclaration) -> "Prices":
        """The price list that the stream declares."""
        if stream.prices not in self.config.prices:
            raise PermanentError(
                f"{stream.name} has no prices: there is no price list {stream.prices} without problems",
                hint=f"correct or add configs/prices/{stream.prices}.yaml",
            )
        return self.config.prices[stream.prices].prices()

    def embedded_s3(self) -> EmbeddedS3 | None:
        """The object store that Holdfast runs itself; `None` if the project declares another."""
        embedded = isinstance(self.config.deployment.object_store, EmbeddedObjectStore)
        return EmbeddedS3(self.config.home) if embedded else None

    def ensure_bucket(self) -> None:
        """Create the bucket for the snapshots if it is missing."""
        connect = connector(self.config.deployment.object_store, self.config.home)
        S3ObjectStore(connect).ensure_bucket()

    def ensure_object_store(self) -> None:
        """Start the embedded object store if the project uses it and it does not run."""
        embedded = self.embedded_s3()
        if embedded is not None:
            embedded.ensure()


@contextmanager
def open_project(root: Path, *, tolerant: bool = False) -> Iterator[Project]:
    """Read the declarations of a project and open its control store.

    With `tolerant` a stream whose file has problems has the declaration that it was last started with; if it
    was never started, it is left out. So has a stream that should run and has no file. The problems are in
    `config.problems`. Files that all streams share are copied, for the time when they have problems.
    """
    config = ProjectConfig.load(root, tolerant=tolerant)
    _keep_good_copies(config)
    with ControlStore.open(config.control_url) as store:
        record_birth(config.home, SYSTEM_CLOCK.now())
        yield Project(_with_last_declarations(config, store) if tolerant else config, store)


def list_missing_files(root: Path) -> list[Problem]:
    """The streams that should run and have no file; a control store is neither created nor upgraded for this.

    `TransientError` or `PermanentError` if the control store cannot be read.
    """
    try:
        config = ProjectConfig.load(root, tolerant=True)
    except InvalidConfig:
        return []
    kind, _, file = config.control_url.partition("?")[0].partition(":///")
    if kind == "sqlite" and not Path(file).expanduser().is_file():
        return []
    with ControlStore.open(config.control_url, in_replica=True) as store:
        problems = _with_last_declarations(config, store).problems
    return [problem for problem in problems if problem not in config.problems]


def _with_last_declarations(config: ProjectConfig, store: ControlStore) -> ProjectConfig:
    wanted = store.streams.list_wanted()
    if not config.broken and wanted <= config.streams.keys():
        return config
    return config.with_last_declarations(store.streams.declarations(), wanted=wanted)


def _keep_good_copies(config: ProjectConfig) -> None:
    """Copy what differs from the last good copy; a project that cannot be written to has none."""
    for document in config.good_files:
        copy = copy_of(config.root, document.file)
        with suppress(OSError):
            if not copy.is_file() or copy.read_text(encoding="utf-8") != document.text:
                write_private(copy, document.text)
