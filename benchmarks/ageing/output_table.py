"""What a stream leaves in its output table: a commit and its files each second, a checkpoint of the log as the sink makes it.

Delta-rs itself has no clock to inject. Expired log files go by their dates, which are simulated, so the log is
cut at the real time instead of the simulated: earlier than in a real month, and alike at its end.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from benchmarks.ageing.control_store import Author
from holdfast.ft_policies.table_epochs import EpochIndex, EpochRange, sum_digests
from holdfast.streaming.sinks.delta.lineage import (
    DIGEST,
    EPOCH,
    INDEX,
    INPUT,
    REPLICA,
    TOKEN,
    merged_folder,
)
from holdfast.streaming.sinks.delta.table import CHECKPOINT_COMMITS

Action = dict[str, Any]
SIMULATED_SECONDS = 60.0
KEPT_CHECKPOINTS = 3
"""Of the checkpoints of an hour the others are deleted by compaction."""
_AT, _NUMBER, _EPOCH, _FOLDER, _REPLICA, _TOKEN, _INPUT = (
    f"@{mark}@" for mark in ("at", "number", "epoch", "folder", "replica", "token", "input")
)


@dataclass
class TableAgeing:
    """Writes what hours of a stream leave in its table: copies of the last commit that the live stream made."""

    root: Path
    version: int
    commit: str
    """Its text, with marks where epochs differ."""
    files: Mapping[str, bytes]
    _merged: pa.Table | None = None

    @classmethod
    def of(cls, root: Path) -> "TableAgeing":
        """Read the newest commit of an epoch."""
        version = DeltaTable(str(root)).version()
        actions = next(
            actions
            for number in range(version, 0, -1)
            if _has_epoch(actions := read_commit(root, number))
        )
        added = [action["add"]["path"] for action in actions if "add" in action]
        files = {Path(path).name: (root / path).read_bytes() for path in added}
        commit = "\n".join(json.dumps(_mark(action)) for action in actions)
        return cls(
            root, version, commit.replace(f'"{_AT}"', _AT).replace(f'"{_NUMBER}"', _NUMBER), files
        )

    def write_hour(
        self, first: int, count: int, begin_at: float, author: Author, inputs: Mapping[int, str]
    ) -> None:
        """Write `count` commits, one a second, with the digests of their `inputs`."""
        self.version = DeltaTable(str(self.root)).version()
        left = self.version + count - KEPT_CHECKPOINTS * CHECKPOINT_COMMITS
        for epoch in range(first, first + count):
            at = begin_at + epoch - first
            self._write_epoch(epoch, at, author, inputs[epoch])
            if (self.version + 1) % CHECKPOINT_COMMITS == 0 and self.version > left:
                DeltaTable(str(self.root)).create_checkpoint()
                self._date_checkpoint(at)

    def write_merged_hour(
        self, first: int, count: int, begin_at: float, author: Author, digest: str
    ) -> None:
        """Write what compaction leaves of `count` commits once their own files are deleted: one file."""
        epochs = EpochRange(first, first + count - 1)
        self.version = DeltaTable(str(self.root)).version() + 1
        at, path = begin_at + count, f"{merged_folder(epochs, f'{first:08x}')}/part-0.parquet"
        body, rows = self._merge(epochs, digest)
        (self.root / path).parent.mkdir()
        _write(f"{self.root}/{path}", body, at)
        add = {
            "path": path, "partitionValues": {}, "size": len(body), "modificationTime": int(at * 1000),
            "dataChange": True, "stats": json.dumps({"numRecords": rows}),
        }  # fmt: skip
        commit = self._commit(epochs.last, at, author)
        lines = [line for line in commit.splitlines() if "add" not in json.loads(line)]
        log = f"{self.root}/_delta_log/{self.version:020d}.json"
        _write(log, "\n".join([*lines, json.dumps({"add": add})]).encode(), at)

    def _merge(self, epochs: EpochRange, digest: str) -> tuple[bytes, int]:
        """The rows of as many epochs in one file, with the footer that a merge writes."""
        numbers = range(epochs.first, epochs.last + 1)
        epoch = pa.concat_tables(pq.read_table(pa.BufferReader(b)) for b in self.files.values())
        if self._merged is None or self._merged.num_rows != epoch.num_rows * len(numbers):
            self._merged = pa.concat_tables([epoch] * len(numbers)).combine_chunks()
        index = EpochIndex(tuple((number, epoch.num_rows) for number in numbers))
        about = {DIGEST: sum_digests([digest] * len(numbers)), INDEX: index.to_text()}
        buffer = pa.BufferOutputStream()
        with pq.ParquetWriter(buffer, self._merged.schema) as writer:
            writer.write_table(self._merged, row_group_size=self._merged.num_rows)
            writer.add_key_value_metadata(about)
        return buffer.getvalue().to_pybytes(), self._merged.num_rows

    def date_commits(self, since: int, at: float) -> None:
        """Date the commits that the product made after a version, and the checkpoint, to a simulated time."""
        self.version = DeltaTable(str(self.root)).version()
        for version in range(since + 1, self.version + 1):
            path = self.root / "_delta_log" / f"{version:020d}.json"
            _set_times(path, at)
            os.utime(path, (at, at))
        self._date_checkpoint(at)

    def _date_checkpoint(self, at: float) -> None:
        log = self.root / "_delta_log"
        newest = json.loads((log / "_last_checkpoint").read_text())["version"]
        path = log / f"{newest:020d}.checkpoint.parquet"
        if path.stat().st_mtime > at + SIMULATED_SECONDS:
            os.utime(path, (at, at))

    def _commit(
        self, epoch: int, at: float, author: Author, *, folder: str = "", read: str = ""
    ) -> str:
        """The template without its marks."""
        marks = {
            _AT: int(at * 1000), _NUMBER: epoch, _EPOCH: epoch, _FOLDER: folder,
            _REPLICA: author.replica, _TOKEN: author.token, _INPUT: read,
        }  # fmt: skip
        commit = self.commit
        for mark, value in marks.items():
            commit = commit.replace(mark, str(value))
        return commit

    def _write_epoch(self, epoch: int, at: float, author: Author, read: str) -> None:
        self.version += 1
        name = f"data/{epoch:012d}-{author.replica}-{epoch % 16**8:08x}"
        folder = f"{self.root}/{name}"
        os.mkdir(folder)  # noqa: PTH102 - there are millions
        for file, body in self.files.items():
            _write(f"{folder}/{file}", body, at)
        os.utime(folder, (at, at))
        commit = self._commit(epoch, at, author, folder=name, read=read)
        _write(f"{self.root}/_delta_log/{self.version:020d}.json", commit.encode(), at)


def _has_epoch(actions: Sequence[Action]) -> bool:
    return any(EPOCH in action.get("commitInfo", {}) for action in actions)


def _mark(action: Action) -> Action:
    """An action with marks in place of what differs from epoch to epoch."""
    match action:
        case {"add": add}:
            path = f"{_FOLDER}/{Path(add['path']).name}"
            return {"add": {**add, "path": path, "modificationTime": _AT}}
        case {"txn": txn}:
            return {"txn": {**txn, "version": _NUMBER, "lastUpdated": _AT}}
        case {"commitInfo": info}:
            names = {EPOCH: _EPOCH, REPLICA: _REPLICA, TOKEN: _TOKEN, INPUT: _INPUT}
            return {"commitInfo": {**info, **names, "timestamp": _AT}}
        case _:
            return action


def _write(path: str, body: bytes, at: float) -> None:
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        os.write(opened, body)
        os.utime(opened, (at, at))
    finally:
        os.close(opened)


def read_commit(root: Path, version: int) -> list[Action]:
    """The actions of one commit."""
    log = root / "_delta_log" / f"{version:020d}.json"
    return [json.loads(line) for line in log.read_text().splitlines() if line]


def move_table(root: Path, seconds: float) -> None:
    """Move all times of a table: the dates of its files, and the times in its commits."""
    for path in sorted(root.rglob("*"), reverse=True):
        at = path.stat().st_mtime + seconds
        if path.suffix == ".json" and path.parent.name == "_delta_log":
            _set_times(path, at)
        os.utime(path, (at, at))


def _set_times(commit: Path, at: float) -> None:
    names = {"timestamp", "modificationTime", "deletionTimestamp", "lastUpdated"}
    actions = [json.loads(line) for line in commit.read_text().splitlines() if line]
    for action in actions:
        for body in action.values():
            if isinstance(body, dict):
                body.update({name: int(at * 1000) for name in names & body.keys()})
    commit.write_text("\n".join(json.dumps(action) for action in actions))
