"""The manifest: the files of a snapshot, where each is stored, and what must match on restore.

It is stored as compressed JSON in columns, since names compress well side by side and the digests,
which do not compress at all, then cost little more than their 32 bytes each.
"""

import base64
import gzip
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.ft_policies.errors import PermanentError

FORMAT = 1
MOST_BYTES = 32 << 20
"""As it is stored, and as text: enough for 200,000 files."""
SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NAME = re.compile(rf"(\d{{12}})-(\d+)(?:\.(\d+))?-({SAFE_NAME.pattern})")


class UnusableSnapshotError(PermanentError):
    """A snapshot that cannot be restored; an older one may be usable."""


@dataclass(frozen=True, slots=True, order=True)
class SnapshotName:
    """Epoch, lease token and replica: together the identity of a snapshot, and its age order.

    A stream that was restored in place has a history; it is part of the name, so that listings show it.
    """

    epoch: int
    token: int
    replica: str
    history: int = 0

    def __post_init__(self) -> None:
        if not SAFE_NAME.fullmatch(self.replica):
            raise PermanentError(
                f"{self.replica!r} cannot be part of an object's name",
                hint="use letters, digits, dots, hyphens and underscores",
            )

    @property
    def id(self) -> str:
        """The stem of the snapshot's objects."""
        history = f".{self.history}" if self.history else ""
        return f"{self.epoch:012d}-{self.token}{history}-{self.replica}"

    @staticmethod
    def is_id(text: str) -> bool:
        """Whether this can be the id of a snapshot."""
        return _NAME.fullmatch(text) is not None

    @classmethod
    def parse(cls, snapshot_id: str) -> "SnapshotName":
        """Read an id back."""
        match = _NAME.fullmatch(snapshot_id)
        if match is None:
            raise PermanentError(
                f"{snapshot_id!r} is not the id of a snapshot",
                hint="run `holdfast snapshots list` to see the ids",
            )
        return cls(int(match[1]), int(match[2]), match[4], int(match[3] or 0))


@dataclass(frozen=True, slots=True)
class NamedSnapshot:
    """A snapshot with its name, and the fields of the name."""

    name: SnapshotName

    @property
    def id(self) -> str:
        """The stem of the snapshot's objects."""
        return self.name.id

    @property
    def epoch(self) -> int:
        """The last epoch that the snapshot contains."""
        return self.name.epoch

    @property
    def token(self) -> int:
        """The lease token of the replica that shipped it."""
        return self.name.token

    @property
    def replica(self) -> str:
        return self.name.replica

    @property
    def history(self) -> int:
        """The history of the stream that it belongs to."""
        return self.name.history


@dataclass(frozen=True, slots=True)
class PackedFile:
    """The place of one file's bytes in a pack, and their digest."""

    path: str
    pack: str
    offset: int
    size_bytes: int
    sha256: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest(NamedSnapshot):
    """The description of a snapshot; `packs` has each pack's name and full length.

    `owner` is the id of the project; empty if an older version has written the manifest.
    """

    stream: str
    parent: str | None
    created_at: float
    spark_version: str
    conf: Mapping[str, str]
    packs: Mapping[str, int]
    files: tuple[PackedFile, ...]
    owner: str = ""

    @property
    def state_bytes(self) -> int:
        """The size of the checkpoint once restored."""
        return sum(file.size_bytes for file in self.files)

    @property
    def paths(self) -> set[str]:
        return {file.path for file in self.files}

    def mismatches(self, *, spark_version: str, conf: Mapping[str, str]) -> list[str]:
        """How a query that should continue from this snapshot differs; empty if all matches."""
        ours = {"spark version": _minor(spark_version)} | dict(conf)
        theirs = {"spark version": _minor(self.spark_version)} | dict(self.conf)
        return [
            f"{name}: the snapshot has {value}, the query {ours.get(name)}"
            for name, value in sorted(theirs.items())
            if ours.get(name) != value
        ]

    def encode(self) -> bytes:
        order = list(self.packs)
        number = {pack: n for n, pack in enumerate(order)}
        columns = {
            "path": [file.path for file in self.files],
            "pack": [number[file.pack] for file in self.files],
            "offset": [file.offset for file in self.files],
            "size": [file.size_bytes for file in self.files],
            "sha256": base64.b64encode(b"".join(f.sha256 for f in self.files)).decode(),
        }
        document = {
            "format": FORMAT,
            "stream": self.stream,
            "owner": self.owner,
            "id": self.id,
            "parent": self.parent,
            "created_at": self.created_at,
            "spark_version": self.spark_version,
            "conf": dict(self.conf),
            "packs": [[pack, self.packs[pack]] for pack in order],
            "files": columns,
        }
        text = json.dumps(document, separators=(",", ":")).encode()
        if len(text) > MOST_BYTES:
            raise PermanentError(
                f"a snapshot of {self.stream} has {len(self.files)} files: its manifest would be too large to be read",
                hint="use fewer shuffle partitions (a new stream), or RocksDB's state store",
            )
        return gzip.compress(text, mtime=0)


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
