"""What a stream has in the object store, by one listing: its snapshots, and the marks of its histories.

A stream that is restored in place to an epoch begins a new history. The mark of it lies beside the
manifests and never changes: from then on what an older history has shipped beyond that epoch does not
count, also if a replica that missed the restore ships it later. Nor does what a replica has shipped that was
rolled back; which those are, the control store knows.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from holdfast.resources.object_store.s3 import ObjectStore
from holdfast.resources.vault.manifest import SnapshotName
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
        """By what snapshots are superseded."""
        return "by a restore"

    @property
    def file(self) -> str:
        """The name of its object."""
        return f"history-{self.history:06d}-after-{self.epoch:012d}.json"

    def encode(self) -> bytes:
        """What its name says, as JSON."""
        return json.dumps({"history": self.history, "after_epoch": self.epoch}).encode()

    def ends(self, name: SnapshotName) -> bool:
        """Whether a snapshot is of an older history and lies beyond its end."""
        return name.history < self.history and name.epoch > self.epoch


@dataclass(frozen=True, slots=True)
class Rollback:
    """A replica was rolled back."""

    replica: str
    marked_at: float

    @property
    def cause(self) -> str:
        """By what snapshots are superseded."""
        return "by a rollback"

    def ends(self, name: SnapshotName) -> bool:
        """Whether the replica has shipped a snapshot."""
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

    def superseded_by(self, snapshot: SnapshotRecord) -> Superseding:
        """Since when and by what a snapshot does not count."""
        endings = (ending for ending in self.endings if ending.ends(snapshot.name))
        return min(endings, key=lambda ending: ending.marked_at)


def aside_prefix(stream: str) -> str:
    """The prefix of what repairs have set aside: each run's objects, named as they were."""
    return f"{stream}/aside/"


def read_listing(store: ObjectStore, manifests: str, rolled_back: Mapping[str, float]) -> Listing:
    """Everything under the prefix of the manifests, with one request; `rolled_back` replicas, and since when."""
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
