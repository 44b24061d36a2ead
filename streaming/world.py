"""A project as something to act on: what is declared, the control store, the snapshots."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from configs.deployment import EmbeddedObjectStore
from configs.project import Project
from configs.stream import StreamDeclaration
from resources.control.store import ControlStore
from resources.embedded_s3 import EmbeddedS3
from resources.object_store import ObjectStore, S3ObjectStore
from resources.vault.vault import SnapshotVault
from streaming.connections import connector, elsewhere

if TYPE_CHECKING:
    from ft_policies.costs.prices import Prices


@dataclass(frozen=True, slots=True)
class World:
    """What commands, sensors and playbooks work with."""

    project: Project
    store: ControlStore

    def object_store(self) -> ObjectStore:
        """What holds the snapshots of all streams."""
        connect = connector(self.project.deployment.object_store, self.project.home)
        return S3ObjectStore(connect)

    def vault(self, stream: str) -> SnapshotVault:
        """The snapshots of one stream."""
        return self._vault(self.object_store(), stream)

    def vault_elsewhere(self, url: str, stream: str) -> SnapshotVault:
        """The snapshots of a stream in another bucket, or under another prefix."""
        connect = connector(self.project.deployment.object_store, self.project.home)
        return self._vault(S3ObjectStore(elsewhere(url, connect)), stream)

    def _vault(self, objects: ObjectStore, stream: str) -> SnapshotVault:
        rolled_back = partial(self.store.rollouts.rolled_back, stream)
        return SnapshotVault(objects, stream, rolled_back=rolled_back)

    def prices(self, stream: StreamDeclaration) -> "Prices":
        """What the stream is priced by."""
        return self.project.prices[stream.prices].prices()

    def embedded_s3(self) -> EmbeddedS3 | None:
        """The object store that Holdfast itself runs, if the project uses it."""
        embedded = isinstance(self.project.deployment.object_store, EmbeddedObjectStore)
        return EmbeddedS3(self.project.home) if embedded else None

    def ensure_object_store(self) -> None:
        """Start the embedded object store if it should run and does not."""
        embedded = self.embedded_s3()
        if embedded is not None:
            embedded.ensure()


@contextmanager
def open_world(root: Path) -> Iterator[World]:
    """Open a project's world for a while."""
    project = Project.load(root)
    with ControlStore.open(project.control_url) as store:
        yield World(project, store)
