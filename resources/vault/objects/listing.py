"""The listing of a stream's objects: its snapshots, and the marks of its histories.

A stream that is restored in place to an epoch begins a new history. Its mark is stored beside the manifests
and never changes: from then on snapshots that an older history shipped beyond that epoch do not count, even
if a replica that missed the restore ships them later. Neither do snapshots of a replica that was rolled back;
the control store has these replicas.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from holdfast.resources.object_store.s3 import ObjectStore
from holdfast.resources.vault.objects.manifest import SnapshotName
from holdfast.resources.vault.records import SnapshotRecord

SUFFIX = ".json.gz"
_MARK = re.compile(r"history-(\d+)-after-(\d+)\.json")


@dataclass(frozen=True, slots=True)
class Mark:
    """A history of the stream began after an epoch."""

    history: int
    epoch: int
    marked_at: float = 0.0

    @property
    def cause(self) -> str:
        """What superseded the snapshots, for messages."""
        return "by a restore"

    @property
    def file(self) -> str:
        """The name of its object."""
        return f"history-{self.history:06d}-after-{self.epoch:012d}.json"

    def encode(self) -> bytes:
        """The body of its object: the same as its name, as JSON."""
        return json.dumps({"history": self.history, "after_epoch": self.epoch}).encode()

    def ends(self, name: SnapshotName) -> bool:
        """Whether a snapshot belongs to an older history and is beyond its end."""
        return name.history < self.history and name.epoch > self.epoch


@dataclass(frozen=True, slots=True)
class Rollback:
    """A replica was rolled back."""

    replica: str
    marked_at: float

    @property
    def cause(self) -> str:
        """What superseded the snapshots, for messages."""
        return "by a rollback"

    def ends(self, name: SnapshotName) -> bool:
        """Whether the replica shipped a snapshot."""
        return name.replica == self.replica


Superseding: TypeAlias = Mark | Rollback


@dataclass(frozen=True, slots=True)
class Listing:
    """All snapshots, newest first: those that count, and those that something has superseded."""

    snapshots: list[SnapshotRecord]
    superseded: list[SnapshotRecord]
    endings: list[Superseding]

    @property
    def histories(self) -> set[int]:
        """The histories that have a mark."""
        return {ending.history for ending in self.endings if isinstance(ending, Mark)}

    def find_superseding(self, snapshot: SnapshotRecord) -> Superseding:
        """The first mark or rollback that superseded a snapshot."""
        endings = (ending for ending in self.endings if ending.ends(snapshot.name))
        return min(endings, key=lambda ending: ending.marked_at)


def aside_prefix(stream: str) -> str:
    """The prefix of what repairs have set aside: each run's objects, named as they were."""
    return f"{stream}/aside/"


def read_listing(store: ObjectStore, manifests: str, rolled_back: Mapping[str, float]) -> Listing:
    """List the prefix of the manifests with one request; `rolled_back` has replicas, and since when."""
    endings: list[Superseding] = [Rollback(replica, at) for replica, at in rolled_back.items()]
    records: list[SnapshotRecord] = []
    for stored in store.list(manifests):
        file = stored.key.rsplit("/", 1)[1]
        stem = file.removesuffix(SUFFIX)
        if (match := _MARK.fullmatch(file)) is not None:
            endings.append(Mark(int(match[1]), int(match[2]), stored.modified_at))
        elif file.endswith(SUFFIX) and SnapshotName.is_id(stem):
            name = SnapshotName.parse(stem)
            records.append(SnapshotRecord(name, stored.modified_at, stored.size_bytes))
    records.sort(key=lambda record: record.name, reverse=True)
    return Listing(
        snapshots=[record for record in records if not _is_superseded(record, endings)],
        superseded=[record for record in records if _is_superseded(record, endings)],
        endings=endings,
    )


def _is_superseded(record: SnapshotRecord, endings: Sequence[Superseding]) -> bool:
    return any(ending.ends(record.name) for ending in endings)
