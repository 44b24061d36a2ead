"""What the processes of one replica share: a file in the replica's folder.

Spark starts processes of its own for the source and the tasks. They get only the path of the
replica's folder, and read the rest from this file. It has no secrets: each process reads those
where they are kept.
"""

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from holdfast.configs.declarations.deployment import ObjectStore
from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.resources.control_store.records import Slot
from holdfast.resources.object_store.connection import S3Connection
from holdfast.resources.object_store.resolve import connector

FILE = "replica.json"


class ReplicaSpec(BaseModel):
    """One replica of one stream, and where its stores, folders and tables are."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    replica: str
    slot: Slot = Slot.PRIMARY  # as it is launched: a secondary may take over
    stream: StreamDeclaration
    nice: int = 0
    """The niceness until the replica is primary: a secondary gives way to the primary."""
    nice_seconds: float | None = None
    """How long the niceness lasts at most, if there is a limit."""
    history: int = 0
    """The stream's history when the replica was launched: each restore in place begins another."""
    control_url: str
    home: Path
    folder: Path
    table: str
    dead_letters: str = ""
    table_versions_seconds: float | None = None
    """How long older versions of the tables can be read; `None` leaves it to Delta."""
    object_store: Annotated[ObjectStore, Field(discriminator="kind")]

    @property
    def checkpoints(self) -> Path:
        """The folder of all checkpoints of the replica."""
        return self.folder / "checkpoints"

    def new_checkpoint(self) -> Path:
        """A new path for a checkpoint: no two queries share one, not even after a restart."""
        return self.checkpoints / secrets.token_hex(4)

    @property
    def connect(self) -> Callable[[], S3Connection]:
        """A function that connects to the object store."""
        return connector(self.object_store, self.home)

    def save(self) -> None:
        """Write the file that the replica's other processes read."""
        path = self.folder / FILE
        path.touch(mode=0o600)
        path.write_text(self.model_dump_json(indent=2, by_alias=True))

    @classmethod
    def load(cls, folder: Path) -> "ReplicaSpec":
        """Read the file of a replica's folder."""
        return cls.model_validate_json((folder / FILE).read_text())
