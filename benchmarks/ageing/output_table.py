"""What a stream leaves in its output table: a commit and its files each second, a checkpoint of the log as the sink makes it.

Delta-rs itself has no clock to inject. Expired log files go by their dates, which are simulated, so the log is
cut at the real time instead of the simulated: earlier than in a real month, and alike at its end.
"""

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from benchmarks.ageing.control_store import Author
from holdfast.streaming.sinks.delta_table import CHECKPOINT_COMMITS
from holdfast.streaming.sinks.lineage import EPOCH, REPLICA, TOKEN

Action = dict[str, Any]


@dataclass
class TableAgeing:
    """Writes what hours of a stream leave in its table: copies of the last commit that the live stream made."""

    root: Path
    version: int
    actions: Sequence[Action]
    bodies: Sequence[bytes]

    @classmethod
    def of(cls, root: Path) -> "TableAgeing":
        """Read the newest commit of an epoch."""
        version = DeltaTable(str(root)).version()
        actions = read_commit(root, version)
        assert any(EPOCH in action.get("commitInfo", {}) for action in actions)
        added = [action["add"] for action in actions if "add" in action]
        return cls(root, version, actions, [(root / add["path"]).read_bytes() for add in added])

    def write_hour(self, first: int, count: int, begin_at: float, author: Author) -> None:
        """Write `count` commits, one a second."""
        self.version = DeltaTable(str(self.root)).version()
        for epoch in range(first, first + count):
            self._write_commit(epoch, begin_at + epoch - first, author)
            if (self.version + 1) % CHECKPOINT_COMMITS == 0:
                began = time.time()  # noqa: TID251 - files are dated by the real clock
                DeltaTable(str(self.root)).create_checkpoint()
                backdate(self.root / "_delta_log", began, begin_at + epoch - first)

    def _write_commit(self, epoch: int, at: float, author: Author) -> None:
        self.version += 1
        folder = f"data/{epoch:012d}-{author.replica}-{epoch % 16**8:08x}"
        (self.root / folder).mkdir(parents=True)
        lines, files = [], iter(self.bodies)
        for action in self.actions:
            lines.append(json.dumps(self._moved(action, folder, epoch, at, author)))
            if "add" in action:
                path = self.root / folder / Path(action["add"]["path"]).name
                _write(path, next(files), at)
        os.utime(self.root / folder, (at, at))
        log = self.root / "_delta_log" / f"{self.version:020d}.json"
        _write(log, "\n".join(lines).encode(), at)

    def _moved(self, action: Action, folder: str, epoch: int, at: float, author: Author) -> Action:
        match action:
            case {"add": add}:
                path = f"{folder}/{Path(add['path']).name}"
                return {"add": {**add, "path": path, "modificationTime": int(at * 1000)}}
            case {"txn": txn}:
                return {"txn": {**txn, "version": epoch, "lastUpdated": int(at * 1000)}}
            case {"commitInfo": info}:
                names = {EPOCH: str(epoch), REPLICA: author.replica, TOKEN: str(author.token)}
                return {"commitInfo": {**info, **names, "timestamp": int(at * 1000)}}
            case _:
                return action


def _write(path: Path, body: bytes, at: float) -> None:
    path.write_bytes(body)
    os.utime(path, (at, at))


def read_commit(root: Path, version: int) -> list[Action]:
    """The actions of one commit."""
    log = root / "_delta_log" / f"{version:020d}.json"
    return [json.loads(line) for line in log.read_text().splitlines() if line]


def backdate(folder: Path, since: float, at: float) -> None:
    """Date to a simulated time what was written since a real one, files and the times in commits."""
    for path in folder.iterdir():
        if path.stat().st_mtime < since or path.is_dir():
            continue
        if path.suffix == ".json":
            _set_times(path, at)
        os.utime(path, (at, at))


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
