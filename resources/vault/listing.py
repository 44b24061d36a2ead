"""What a stream has in the object store, by one listing: its snapshots, and the marks of its histories.

A stream that is restored in place to an epoch begins a new history. The mark of it lies beside the
manifests and never changes: from then on what an older history has shipped beyond that epoch does not
count, also if a replica that knows of nothing ships it later.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from resources.object_store import ObjectStore
from resources.vault.manifest import SnapshotName
from resources.vault.records import SnapshotRecord

SUFFIX = ".json.gz"
_MARK = re.compile(r"history-(\d+)-after-(\d+)\.json")


@dataclass(frozen=True, slots=True)
class Mark:
    """A history of the stream began after an epoch."""

    history: int
    epoch: int
    marked_at: float = 0.0

    @property
    def file(self) -> str:
        """The name of its object."""
        return f"history-{self.history:06d}-after-{self.epoch:012d}.json"

    def encode(self) -> bytes:
        """The same as its name says, for people."""
        return json.dumps({"history": self.history, "after_epoch": self.epoch}).encode()

    def ends(self, name: SnapshotName) -> bool:
        """Whether a snapshot is of an older history and lies beyond its end."""
        return name.history < self.history and name.epoch > self.epoch


@dataclass(frozen=True, slots=True)
class Listing:
    """All snapshots, newest first: those that count, and those that a restore has superseded."""

    snapshots: list[SnapshotRecord]
    superseded: list[SnapshotRecord]
    marks: list[Mark]

    def superseded_at(self, snapshot: SnapshotRecord) -> float:
        """When a snapshot ceased to count."""
        return min(mark.marked_at for mark in self.marks if mark.ends(snapshot.name))


def aside_of(stream: str) -> str:
    """The prefix of what repairs have set aside: each run's objects, named as they were."""
    return f"{stream}/aside/"


def read_listing(store: ObjectStore, manifests: str) -> Listing:
    """Everything under the prefix of the manifests, with one request."""
    marks: list[Mark] = []
    records: list[SnapshotRecord] = []
    for found in store.list(manifests):
        file = found.key.rsplit("/", 1)[1]
        stem = file.removesuffix(SUFFIX)
        if (match := _MARK.fullmatch(file)) is not None:
            marks.append(Mark(int(match[1]), int(match[2]), found.modified_at))
        elif file.endswith(SUFFIX) and SnapshotName.is_id(stem):
            name = SnapshotName.parse(stem)
            records.append(SnapshotRecord(name, found.modified_at, found.size_bytes))
    records.sort(key=lambda record: record.name, reverse=True)
    return Listing(
        snapshots=[one for one in records if not _is_superseded(one, marks)],
        superseded=[one for one in records if _is_superseded(one, marks)],
        marks=marks,
    )


def _is_superseded(record: SnapshotRecord, marks: Sequence[Mark]) -> bool:
    return any(mark.ends(record.name) for mark in marks)
