"""The files of a Spark checkpoint that a query needs to continue after an epoch, and no more.

Spark reads the newest entry of `offsets`, at the one before it (as the start of the last batch)
and at the newest of `commits`; a few more are taken so that an operator can see where it came from.
The metadata of a source (`sources`) is taken as it is: what it has beyond the cut is only read again. Files never change once they carry their final name; hidden files, `.crc` and `.tmp` are not
part of a checkpoint.

Spark keeps each state store in a folder of its own and numbers its versions: after batch N it is at N+1.

- HDFS-backed: `V.delta` is one batch's change, `V.snapshot` the whole.
- RocksDB: `V.zip` is the whole; inside, a file `metadata` names the shared files in `SSTs/` and
  `logs/` that belong to it. With changelog checkpointing `V.changelog` is one batch's change and a
  `V.zip` comes now and then.

Either way a version is a whole that is not above it, and every change after that whole: the newest whole,
or an older one that is in the object store already, where Spark has written the same state as a whole again.
"""

import json
import os
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from holdfast.ft_policies.errors import PermanentError

_LOG_ENTRIES = 3

_VERSIONED = re.compile(r"(\d+)\.(delta|snapshot|zip|changelog)")
_UNIQUE = re.compile(r"\d+_[^.]+\.(delta|snapshot|zip|changelog)")
_WHOLES = ("snapshot", "zip")
_CHANGES_SHARE = 0.5
_PARTITIONS = "spark.sql.shuffle.partitions"
LEAST_WHOLE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Chain:
    """The whole that a version starts from, if any, and the changes after it."""

    whole: str | None
    changes: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """All files of the chain, the oldest first."""
        return (() if self.whole is None else (self.whole,)) + self.changes


def find_chain(names: Iterable[str], version: int, *, store: str) -> Chain:
    """The smallest set of a store's files that gives its state at `version`; `PermanentError` if one is missing."""
    wholes: dict[int, str] = {}
    changes: dict[int, str] = {}
    for name in names:
        if _UNIQUE.fullmatch(name):
            raise PermanentError(
                f"{store} has state checkpoints of format version 2 ({name}), which cannot be shipped",
                hint="set spark.sql.streaming.stateStore.checkpointFormatVersion to 1 and start the "
                "stream from a new checkpoint",
            )
        match = _VERSIONED.fullmatch(name)
        if match and int(match[1]) <= version:
            (wholes if match[2] in _WHOLES else changes)[int(match[1])] = name
    base = max(wholes, default=0)
    needed = range(base + 1, version + 1)
    missing = [step for step in needed if step not in changes]
    if missing:
        raise PermanentError(
            f"{store} cannot be rebuilt at version {version}: it starts from {wholes.get(base, 'nothing')} "
            f"and lacks the change of version {missing[0]}",
            hint="restore a snapshot, or raise spark.sql.streaming.minBatchesToRetain: the checkpoint is damaged "
            "or was pruned too early",
        )
    return Chain(wholes.get(base), tuple(changes[step] for step in needed))


def prefer_stored_chain(folder: Path, newest: Chain, stored: Set[str], version: int) -> Chain:
    """The chain from a whole that is stored, while its changes weigh less than half of the newest whole.

    Spark writes the whole state every few batches, however little of it has changed. A chain from an older
    whole gives the same state, as long as Spark has not removed it, and only its last changes have to be
    shipped. For a light whole that is not worth the many files; a RocksDB archive is light by itself: its
    tables are shared with the one before.
    """
    older = [name for name in stored if name.endswith(".snapshot")]
    if newest.whole is None or newest.whole in stored or not older:
        return newest
    whole = max(older, key=_version)
    changes = tuple(f"{step}.delta" for step in range(_version(whole) + 1, version + 1))
    try:
        full = (folder / newest.whole).stat().st_size
        (folder / whole).stat()
        weight = sum((folder / name).stat().st_size for name in changes)
    except FileNotFoundError:
        return newest
    light = weight < _CHANGES_SHARE * full and full >= LEAST_WHOLE_BYTES
    return Chain(whole, changes) if light else newest


def _version(name: str) -> int:
    return int(name.split(".", 1)[0])


def read_shared_sizes(archive: Path) -> dict[str, int]:
    """The files beside a RocksDB `V.zip` that it needs, relative to the store's folder, with lengths."""
    try:
        with zipfile.ZipFile(archive) as opened:
            text = opened.read("metadata").decode()
        described = json.loads(text.split("\n", 1)[1])
    except (zipfile.BadZipFile, KeyError, IndexError, ValueError) as error:
        raise PermanentError(
            f"{archive} is not a RocksDB checkpoint that Spark 4 wrote: {error}",
            hint="restore a snapshot: the checkpoint is damaged",
        ) from error
    tables, logs = described.get("sstFiles", []), described.get("logFiles") or []
    return {f"SSTs/{file['dfsSstFileName']}": file["sizeBytes"] for file in tables} | {
        f"logs/{file['dfsLogFileName']}": file["sizeBytes"] for file in logs
    }


@dataclass(frozen=True, slots=True)
class CutFile:
    """One file of a cut, its path relative to the checkpoint."""

    path: str
    size_bytes: int


def cut(checkpoint: Path, epoch: int, *, stored: Set[str] = frozenset()) -> list[CutFile]:
    """The files that Spark needs to continue with epoch + 1, ordered by path.

    Of several possible sets of state files, it is the one of which most is `stored` already.
    `PermanentError` if the epoch is not committed or the checkpoint is damaged.
    """
    if not (checkpoint / "commits" / str(epoch)).is_file():
        raise PermanentError(
            f"epoch {epoch} is not committed in {checkpoint}",
            hint="ship only epochs that Spark has committed",
        )
    if not (checkpoint / "metadata").is_file():
        raise PermanentError(
            f"{checkpoint} is damaged: it has no file metadata, which names its query",
            hint="restore a snapshot: the checkpoint is damaged",
        )
    paths = ["metadata", *_log_entries(checkpoint, epoch), *_visible(checkpoint, "sources")]
    names_in: dict[str, set[str]] = defaultdict(set)
    for path in stored:
        folder, _, name = path.rpartition("/")
        names_in[folder].add(name)
    for operator in list_numbered_folders(checkpoint / "state"):
        paths.extend(_operator(checkpoint, f"state/{operator}", epoch, names_in))
    return [CutFile(path, (checkpoint / path).stat().st_size) for path in sorted(set(paths))]


def _log_entries(checkpoint: Path, epoch: int) -> Iterator[str]:
    for log in ("offsets", "commits"):
        kept = range(max(0, epoch - _LOG_ENTRIES + 1), epoch + 1)
        present = [n for n in kept if (checkpoint / log / str(n)).is_file()]
        if log == "offsets" and not {epoch, max(0, epoch - 1)} <= set(present):
            raise PermanentError(
                f"{checkpoint} is damaged: it lacks the offsets of epoch {epoch} or of the epoch before it",
                hint="restore a snapshot: the checkpoint is damaged",
            )
        yield from (f"{log}/{n}" for n in present)


def _operator(
    checkpoint: Path, operator: str, epoch: int, stored: Mapping[str, Set[str]]
) -> Iterator[str]:
    """The files of one stateful operator: its metadata, and the chain of each of its stores.

    `stored` are the names of the files that are stored already, by folder.
    """
    described = [
        *_visible(checkpoint, f"{operator}/_metadata"),
        *_visible(checkpoint, f"{operator}/_stateSchema"),
    ]
    yield from (path for path in described if _parse_batch(path) <= epoch)
    for partition in list_numbered_folders(checkpoint / operator):
        yield from _visible(checkpoint, f"{operator}/{partition}/_metadata")
    for store in list_stores(checkpoint, operator, epoch):
        yield from _visible(checkpoint, f"{store}/_metadata")
        yield from _store(checkpoint, store, epoch + 1, stored.get(store, frozenset()))


def _store(checkpoint: Path, store: str, version: int, stored: Set[str]) -> Iterator[str]:
    names = [entry.name for entry in list_entries(checkpoint / store) if entry.is_file()]
    needed = prefer_stored_chain(
        checkpoint / store, find_chain(names, version, store=store), stored, version
    )
    yield from (f"{store}/{name}" for name in needed.names)
    if needed.whole is not None and needed.whole.endswith(".zip"):
        yield from _list_shared(checkpoint, store, needed.whole)


def _list_shared(checkpoint: Path, store: str, archive: str) -> Iterator[str]:
    home = checkpoint / store
    for name, size_bytes in read_shared_sizes(home / archive).items():
        try:
            present = (home / name).stat().st_size
        except FileNotFoundError:
            present = None
        if present != size_bytes and (home / archive).is_file():
            damage = "is missing" if present is None else f"has {present} bytes, not {size_bytes}"
            raise PermanentError(
                f"{store} cannot be rebuilt: {archive} needs {name}, which {damage}",
                hint="restore a snapshot: the checkpoint is damaged",
            )
        yield f"{store}/{name}"


def list_stores(checkpoint: Path, operator: str, epoch: int) -> list[str]:
    """Every store that the operator's metadata names, in every partition.

    Spark's own repartitioning leaves the metadata as it was: the epoch's offsets have the number of partitions.
    """
    for source in _descriptions(checkpoint / operator / "_metadata", epoch):
        described = json.loads(source.read_text().split("\n", 1)[1])
        return [
            f"{operator}/{partition}" + ("" if name == "default" else f"/{name}")
            for name, partitions in (
                (info["storeName"], info["numPartitions"]) for info in described["stateStoreInfo"]
            )
            for partition in range(_count_partitions(checkpoint, operator, epoch, partitions))
        ]
    raise PermanentError(
        f"{checkpoint / operator} is damaged: it does not name its state stores",
        hint="restore a snapshot: the checkpoint is damaged or was written before Spark 4",
    )


def _count_partitions(checkpoint: Path, operator: str, epoch: int, described: int) -> int:
    """How many partitions an operator has after an epoch.

    An operator with fewer partitions than the query, as an aggregation without keys, has no folders beyond its own.
    """
    declared = _read_partitions(checkpoint, epoch)
    if declared is None or declared <= described:
        return declared or described
    last = max(list_numbered_folders(checkpoint / operator), default=0)
    return declared if last >= described else described


def _read_partitions(checkpoint: Path, epoch: int) -> int | None:
    """The number of partitions that an epoch is bound to, as its offsets have it."""
    try:
        _, metadata, *_ = (checkpoint / "offsets" / str(epoch)).read_bytes().split(b"\n")
        return int(json.loads(metadata)["conf"][_PARTITIONS])
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        return None


def _descriptions(folder: Path, epoch: int) -> list[Path]:
    """The metadata of an operator, newest first: one file, or a file for each change since Spark 4."""
    numbered = [n for n in list_numbers(folder / "v2") if n <= epoch]
    single = folder / "metadata"
    return [folder / "v2" / str(n) for n in sorted(numbered, reverse=True)] or (
        [single] if single.is_file() else []
    )


def _parse_batch(path: str) -> int:
    """The batch that wrote a metadata file, by its name; -1 for `metadata` and `schema`, which have none."""
    first = path.rsplit("/", 1)[1].split("_", 1)[0]
    return int(first) if first.isdigit() else -1


def _visible(checkpoint: Path, folder: str) -> Iterator[str]:
    for entry in list_entries(checkpoint / folder):
        if entry.is_dir():
            yield from _visible(checkpoint, f"{folder}/{entry.name}")
        else:
            yield f"{folder}/{entry.name}"


def list_entries(folder: Path) -> list[os.DirEntry[str]]:
    """The entries of a folder that belong to the checkpoint; none if there is no such folder."""
    if not folder.is_dir():
        return []
    with os.scandir(folder) as scanned:
        return [
            entry
            for entry in scanned
            if not entry.name.startswith(".") and not entry.name.endswith((".crc", ".tmp"))
        ]


def list_numbers(folder: Path) -> list[int]:
    """The entries of a log."""
    return [int(entry.name) for entry in list_entries(folder) if entry.name.isdigit()]


def list_numbered_folders(folder: Path) -> list[int]:
    """Operators or partitions, in order."""
    return sorted(int(e.name) for e in list_entries(folder) if e.name.isdigit() and e.is_dir())
