"""Fault injection: a drill blocks the object store for one replica, and for a while only.

The order is a file in the replica's folder, so it holds for a replica on this host, survives the drill
that gave it, and ends by itself.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from holdfast.ft_policies import quantities
from holdfast.ft_policies.errors import TransientError
from holdfast.resources.clock import SYSTEM_CLOCK
from holdfast.resources.object_store.s3 import ObjectStore, StoredObject

FILE = "cut_off_until"  # the name of this fault when the file was introduced


def block_object_store(replica_folder: Path, *, seconds: float) -> float:
    """Block the object store for a replica, from now on; until when."""
    until = SYSTEM_CLOCK.now() + seconds
    order = replica_folder / FILE
    draft = order.with_suffix(".new")
    draft.write_text(str(until))
    draft.rename(order)
    return until


def blocked_until(replica_folder: Path) -> float:
    """Until when the object store is blocked for a replica; 0 if it never was."""
    order = replica_folder / FILE
    return float(order.read_text()) if order.exists() else 0.0


@dataclass(frozen=True, slots=True)
class BlockableStore:
    """The object store as one replica reaches it."""

    store: ObjectStore
    replica_folder: Path

    @property
    def requests(self) -> int:
        """How many requests were sent so far."""
        return self.store.requests

    def put(self, key: str, body: bytes | BinaryIO) -> None:
        """Store an object with one request, in place of any that was there."""
        self._open_store().put(key, body)

    def create(self, key: str, body: bytes) -> None:
        """Store an object unless there is one."""
        self._open_store().create(key, body)

    def get(self, key: str) -> bytes:
        """Read a whole object."""
        return self._open_store().get(key)

    def read(self, key: str, *, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Read an object or a range of it in parts, as they come; it ends where the object ends."""
        return self._open_store().read(key, start=start, length=length)

    def list(self, prefix: str) -> list[StoredObject]:
        """All objects whose key starts with the prefix, ordered by key."""
        return self._open_store().list(prefix)

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects; an object that is not there counts as deleted."""
        self._open_store().delete(keys)

    def read_clock(self) -> float:
        """Unix seconds on the clock by which the store dates its objects."""
        return self._open_store().read_clock()

    def _open_store(self) -> ObjectStore:
        left = blocked_until(self.replica_folder) - SYSTEM_CLOCK.now()
        if left > 0:
            raise TransientError(
                f"a drill blocks the object store for another {quantities.seconds(left)}",
                hint="wait: the stream goes on, and snapshots follow when the drill is over",
            )
        return self.store
