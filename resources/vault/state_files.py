"""Which files of one state store rebuild it at a given version.

Spark keeps each store in a folder of its own and numbers its versions: after batch N it is at N+1.

- HDFS-backed: `V.delta` is one batch's change, `V.snapshot` the whole.
- RocksDB: `V.zip` is the whole; inside, a file `metadata` names the shared files in `SSTs/` and
  `logs/` that belong to it. With changelog checkpointing `V.changelog` is one batch's change and a
  `V.zip` comes now and then.

Either way a version is a whole that is not above it, and every change after that whole: the newest one,
or an older one that is in the object store already, where Spark has written the same state as a whole again.
"""

import json
import re
import zipfile
from collections.abc import Iterable, Set
from dataclasses import dataclass
from pathlib import Path

from ft_policies.errors import PermanentError

_VERSIONED = re.compile(r"(\d+)\.(delta|snapshot|zip|changelog)")
_UNIQUE = re.compile(r"\d+_[^.]+\.(delta|snapshot|zip|changelog)")
_WHOLES = ("snapshot", "zip")
_CHANGES_SHARE = 0.5
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


def chain(names: Iterable[str], version: int, *, store: str) -> Chain:
    """The least set of a store's files that gives its state at `version`."""
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
            hint="the checkpoint is damaged or was pruned too early: raise "
            "spark.sql.streaming.minBatchesToRetain, or restore a snapshot",
        )
    return Chain(wholes.get(base), tuple(changes[step] for step in needed))


def chain_on(folder: Path, newest: Chain, stored: Set[str], version: int) -> Chain:
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


def shared_sizes(archive: Path) -> dict[str, int]:
    """The files beside a RocksDB `V.zip` that it needs, relative to the store's folder, with lengths."""
    try:
        with zipfile.ZipFile(archive) as opened:
            text = opened.read("metadata").decode()
        described = json.loads(text.split("\n", 1)[1])
    except (zipfile.BadZipFile, KeyError, IndexError, ValueError) as error:
        raise PermanentError(
            f"{archive} is not a RocksDB checkpoint that Spark 4 wrote: {error}",
            hint="the checkpoint is damaged: restore a snapshot",
        ) from error
    tables, logs = described.get("sstFiles", []), described.get("logFiles") or []
    return {f"SSTs/{one['dfsSstFileName']}": one["sizeBytes"] for one in tables} | {
        f"logs/{one['dfsLogFileName']}": one["sizeBytes"] for one in logs
    }
