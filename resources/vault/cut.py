"""The cut: the files of a Spark checkpoint that a query needs to go on after an epoch, and no more.

Spark looks at the newest entry of `offsets`, at the one before it (as the start of the last batch)
and at the newest of `commits`; a few more are taken so that a person can see where it came from.
A source's own notes (`sources`) are taken as they are: what they say beyond the cut is only read
again. Files never change once they carry their final name; hidden files, `.crc` and `.tmp` are not
part of a checkpoint.
"""

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from ft_policies.errors import PermanentError
from resources.vault.state_files import chain, chain_on, shared_sizes

_LOG_ENTRIES = 3


@dataclass(frozen=True, slots=True)
class CutFile:
    """One file of a cut, its path relative to the checkpoint."""

    path: str
    size_bytes: int


def cut(checkpoint: Path, epoch: int, *, stored: Set[str] = frozenset()) -> list[CutFile]:
    """The files that Spark needs to go on with epoch + 1, ordered by path.

    Of several sets of state files that would do, the one of which most is `stored` already.
    """
    if not (checkpoint / "commits" / str(epoch)).is_file():
        raise PermanentError(
            f"epoch {epoch} is not committed in {checkpoint}",
            hint="ship only epochs that Spark has committed",
        )
    if not (checkpoint / "metadata").is_file():
        raise PermanentError(
            f"{checkpoint} has no file metadata, which names its query",
            hint="the checkpoint is damaged: restore a snapshot",
        )
    paths = ["metadata", *_log_entries(checkpoint, epoch), *_visible(checkpoint, "sources")]
    names_in: dict[str, set[str]] = defaultdict(set)
    for path in stored:
        folder, _, name = path.rpartition("/")
        names_in[folder].add(name)
    for operator in numbered_folders(checkpoint / "state"):
        paths.extend(_operator(checkpoint, f"state/{operator}", epoch, names_in))
    return [CutFile(path, (checkpoint / path).stat().st_size) for path in sorted(set(paths))]


def _log_entries(checkpoint: Path, epoch: int) -> Iterator[str]:
    for log in ("offsets", "commits"):
        kept = range(max(0, epoch - _LOG_ENTRIES + 1), epoch + 1)
        present = [n for n in kept if (checkpoint / log / str(n)).is_file()]
        if log == "offsets" and not {epoch, max(0, epoch - 1)} <= set(present):
            raise PermanentError(
                f"{checkpoint} lacks the offsets of epoch {epoch} or of the one before",
                hint="the checkpoint is damaged: restore a snapshot",
            )
        yield from (f"{log}/{n}" for n in present)


def _operator(
    checkpoint: Path, operator: str, epoch: int, stored: Mapping[str, Set[str]]
) -> Iterator[str]:
    """The files of one stateful operator: what describes it, and the chain of each of its stores.

    `stored` are the names of what is stored already, by folder.
    """
    described = [
        *_visible(checkpoint, f"{operator}/_metadata"),
        *_visible(checkpoint, f"{operator}/_stateSchema"),
    ]
    yield from (path for path in described if _written_by(path) <= epoch)
    for partition in numbered_folders(checkpoint / operator):
        yield from _visible(checkpoint, f"{operator}/{partition}/_metadata")
    for store in stores(checkpoint, operator, epoch):
        yield from _visible(checkpoint, f"{store}/_metadata")
        yield from _store(checkpoint, store, epoch + 1, stored.get(store, frozenset()))


def _store(checkpoint: Path, store: str, version: int, stored: Set[str]) -> Iterator[str]:
    names = [entry.name for entry in entries(checkpoint / store) if entry.is_file()]
    found = chain_on(checkpoint / store, chain(names, version, store=store), stored, version)
    yield from (f"{store}/{name}" for name in found.names)
    if found.whole is not None and found.whole.endswith(".zip"):
        yield from _shared(checkpoint, store, found.whole)


def _shared(checkpoint: Path, store: str, archive: str) -> Iterator[str]:
    home = checkpoint / store
    for name, size_bytes in shared_sizes(home / archive).items():
        try:
            found = (home / name).stat().st_size
        except FileNotFoundError:
            found = None
        if found != size_bytes and (home / archive).is_file():
            told = "is missing" if found is None else f"has {found} bytes, not {size_bytes}"
            raise PermanentError(
                f"{store} cannot be rebuilt: {archive} needs {name}, which {told}",
                hint="the checkpoint is damaged: restore a snapshot",
            )
        yield f"{store}/{name}"


def stores(checkpoint: Path, operator: str, epoch: int) -> list[str]:
    """Every store that the operator's own description names, in every partition."""
    for source in _descriptions(checkpoint / operator / "_metadata", epoch):
        described = json.loads(source.read_text().split("\n", 1)[1])
        return [
            f"{operator}/{partition}" + ("" if name == "default" else f"/{name}")
            for name, partitions in (
                (info["storeName"], info["numPartitions"]) for info in described["stateStoreInfo"]
            )
            for partition in range(partitions)
        ]
    raise PermanentError(
        f"{checkpoint / operator} does not say which state stores it has",
        hint="the checkpoint is damaged or was written before Spark 4: restore a snapshot",
    )


def _descriptions(folder: Path, epoch: int) -> list[Path]:
    """What describes an operator, the newest first: one file, or one a change since Spark 4."""
    numbered = [n for n in numbers(folder / "v2") if n <= epoch]
    single = folder / "metadata"
    return [folder / "v2" / str(n) for n in sorted(numbered, reverse=True)] or (
        [single] if single.is_file() else []
    )


def _written_by(path: str) -> int:
    """The batch that wrote a description, as its name says; `metadata` and `schema` are timeless."""
    first = path.rsplit("/", 1)[1].split("_", 1)[0]
    return int(first) if first.isdigit() else -1


def _visible(checkpoint: Path, folder: str) -> Iterator[str]:
    for entry in entries(checkpoint / folder):
        if entry.is_dir():
            yield from _visible(checkpoint, f"{folder}/{entry.name}")
        else:
            yield f"{folder}/{entry.name}"


def entries(folder: Path) -> list[os.DirEntry[str]]:
    """What belongs to a checkpoint in one of its folders; nothing if there is no such folder."""
    if not folder.is_dir():
        return []
    with os.scandir(folder) as found:
        return [
            entry
            for entry in found
            if not entry.name.startswith(".") and not entry.name.endswith((".crc", ".tmp"))
        ]


def numbers(folder: Path) -> list[int]:
    """The entries of a log."""
    return [int(entry.name) for entry in entries(folder) if entry.name.isdigit()]


def numbered_folders(folder: Path) -> list[int]:
    """Operators or partitions, in order."""
    return sorted(int(e.name) for e in entries(folder) if e.name.isdigit() and e.is_dir())
