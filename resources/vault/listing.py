"""What a stream has in the object store, by one listing: its snapshots, and marks of those that do not count.

A stream that is restored in place to an epoch begins a new history; a replica that is rolled back leaves state
behind that the stream must not go on from. Either is marked beside the manifests, and a mark never changes: what an
older history has shipped beyond that epoch, or that replica at all, does not count, also if somebody who knows of
nothing ships it later.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from resources.object_store import ObjectStore
from resources.vault.manifest import SnapshotName
from resources.vault.records import SnapshotRecord

SUFFIX = ".json.gz"
_NEW_HISTORY = re.compile(r"history-(\d+)-after-(\d+)\.json")
_WITHDRAWAL = re.compile(r"withdrawn-(.+)\.json")


@dataclass(frozen=True, slots=True)
class NewHistory:
    """A history of the stream began after an epoch."""

    history: int
    epoch: int
    marked_at: float = 0.0

    @property
    def told(self) -> str:
        """By what snapshots are superseded."""
        return "by a restore"

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
class Withdrawal:
    """A replica was rolled back."""

    replica: str
    marked_at: float = 0.0

    @property
    def told(self) -> str:
        """By what snapshots are superseded."""
        return "by a rollback"

    @property
    def file(self) -> str:
        """The name of its object."""
        return f"withdrawn-{self.replica}.json"

    def encode(self) -> bytes:
        """The same as its name says, for people."""
        return json.dumps({"withdrawn": self.replica}).encode()

    def ends(self, name: SnapshotName) -> bool:
        """Whether the replica has shipped a snapshot."""
        return name.replica == self.replica


Mark: TypeAlias = NewHistory | Withdrawal


@dataclass(frozen=True, slots=True)
class Listing:
    """All snapshots, newest first: those that count, and those that a mark has superseded."""

    snapshots: list[SnapshotRecord]
    superseded: list[SnapshotRecord]
    marks: list[Mark]

    @property
    def histories(self) -> set[int]:
        """The histories that have a mark."""
        return {mark.history for mark in self.marks if isinstance(mark, NewHistory)}

    def superseded_by(self, snapshot: SnapshotRecord) -> Mark:
        """Since when and by what a snapshot does not count."""
        ending = (mark for mark in self.marks if mark.ends(snapshot.name))
        return min(ending, key=lambda mark: mark.marked_at)


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
        if (match := _NEW_HISTORY.fullmatch(file)) is not None:
            marks.append(NewHistory(int(match[1]), int(match[2]), found.modified_at))
        elif (match := _WITHDRAWAL.fullmatch(file)) is not None:
            marks.append(Withdrawal(match[1], found.modified_at))
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
