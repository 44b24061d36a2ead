"""What a stream leaves in vault and catalogue: a snapshot every ten seconds, and the newest to go on from.

A snapshot is a copy of the last that the live stream shipped, with the numbers of its own epoch in all names; it
has its files in one pack, so it shares none with the snapshot before it.
"""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from benchmarks.ageing.control_store import Author, Detail
from benchmarks.ageing.world import SimulatedProject
from holdfast.resources.control_store.epoch_records import digest_input
from holdfast.resources.control_store.records import SnapshotRow, SnapshotState
from holdfast.resources.control_store.schema import snapshots
from holdfast.resources.vault.objects.manifest import Manifest, PackedFile, SnapshotName
from holdfast.resources.vault.records import build_snapshot_row
from holdfast.resources.vault.vault import SnapshotVault

EVERY_SECONDS = 10
_NUMBERED = re.compile(
    r"((?:offsets|commits)/|state/.*/)(\d+)((?:\.(?:delta|snapshot|zip|changelog))?)"
)


@dataclass
class SnapshotAgeing:
    """Writes what hours of a stream leave in vault and catalogue."""

    project: SimulatedProject
    stream: str
    row: SnapshotRow
    manifest: Manifest
    body: bytes
    scratch: Path

    @classmethod
    def of(cls, project: SimulatedProject, stream: str, scratch: Path) -> "SnapshotAgeing":
        """Read the newest snapshot, and restore it: it is pruned long before the last is shipped."""
        row, vault = project.store.snapshots.newest(stream), project.vault(stream)
        assert row is not None
        stored = vault.manifest(row.id)
        bodies = {pack: b"".join(vault.read_pack(pack)) for pack in stored.packs}
        parts, files, offset = [], [], 0
        for file in stored.files:
            part = bodies[file.pack][file.offset : file.offset + file.size_bytes]
            files.append(replace(file, offset=offset, pack="pack"))
            parts.append(part)
            offset += len(part)
        manifest = replace(stored, files=tuple(files), packs={"pack": offset})
        vault.restore(stored, scratch / "checkpoint")
        return cls(project, stream, row, manifest, b"".join(parts), scratch)

    def write_hour(
        self, first: int, count: int, begin_at: float, author: Author, detail: Detail = Detail.ALL
    ) -> None:
        """Write the snapshots of an hour with `count` epochs, one a second; of an old hour only the last is there."""
        seconds = range(EVERY_SECONDS - 1, count, EVERY_SECONDS)
        rows = [
            self._write(first + second, begin_at + second, author)
            if detail >= Detail.INPUT or second == seconds[-1]
            else self._row(first + second, begin_at + second, author, dropped=True)
            for second in (seconds if detail >= Detail.RECORDS else seconds[-1:])
        ]
        with self.project.store._database.write(durable=False) as connection:  # noqa: SLF001
            connection.execute(sa.insert(snapshots), rows)

    def _write(self, epoch: int, at: float, author: Author) -> dict[str, Any]:
        """Write a snapshot; returns its row of the catalogue."""
        self.project.objects.clock.at = at
        manifest = self._copy(epoch, at, author)
        pack, row = next(iter(manifest.packs)), self._row(epoch, at, author)
        self.project.objects.put(f"{self.stream}/packs/{pack}", self.body)
        self.project.objects.put(row["manifest_key"], manifest.encode())
        return row

    def _row(
        self, epoch: int, at: float, author: Author, *, dropped: bool = False
    ) -> dict[str, Any]:
        name = SnapshotName(epoch, author.token, author.replica)
        return {
            "stream": self.stream,
            "id": name.id,
            "epoch": epoch,
            "token": author.token,
            "replica": author.replica,
            "parent": None,
            "manifest_key": self.project.vault(self.stream).manifest_key(name.id),
            "files": self.row.files,
            "total_bytes": self.row.total_bytes,
            "new_bytes": self.row.new_bytes,
            "requests": self.row.requests,
            "seconds": self.row.seconds,
            "state": SnapshotState.DROPPED if dropped else self.row.state,
            "reason": "not kept by the retention" if dropped else "",
            "created_at": at,
            "history": self.row.history,
        }

    def ship_last(self, epoch: int, author: Author) -> None:
        """Ship a checkpoint that is at this epoch, as a replica does; the stream goes on from it."""
        vault, folder = self.project.vault(self.stream), self.scratch / "checkpoint"
        renumber(folder, epoch - self.row.epoch, self._input_digest)
        shipped = vault.ship(
            folder,
            epoch,
            token=author.token,
            replica=author.replica,
            parent=None,
            conf=self.manifest.conf,
            created_at=self.project.clock.now(),
            scratch=self.scratch / "packs",
        )
        shutil.rmtree(self.scratch)
        self.project.store.snapshots.record(_catalogue_row(self.stream, shipped, vault))

    def _input_digest(self, epoch: int) -> str | None:
        decided = self.project.store.epochs.get(self.stream, epoch)
        return None if decided is None else digest_input(decided)

    def _copy(self, epoch: int, at: float, author: Author) -> Manifest:
        name = SnapshotName(epoch, author.token, author.replica)
        pack = f"{name.id}.{epoch:012x}.pack"
        ahead = epoch - self.row.epoch
        return replace(
            self.manifest,
            name=name,
            parent=None,
            created_at=at,
            packs={pack: len(self.body)},
            files=tuple(_move_file(file, pack, ahead) for file in self.manifest.files),
        )


def _move_file(file: PackedFile, pack: str, ahead: int) -> PackedFile:
    return replace(file, path=renumber_path(file.path, ahead), pack=pack)


def _catalogue_row(stream: str, shipped, vault: SnapshotVault) -> SnapshotRow:  # type: ignore[no-untyped-def]
    return build_snapshot_row(
        stream,
        shipped.manifest,
        vault.manifest_key(shipped.manifest.id),
        new_bytes=shipped.new_bytes,
        requests=shipped.requests,
        seconds=shipped.seconds,
    )


def renumber_path(path: str, ahead: int) -> str:
    """The path of a file of a checkpoint after as many epochs more."""
    match = _NUMBERED.fullmatch(path)
    if match is None or "/_" in path:
        return path
    return f"{match[1]}{int(match[2]) + ahead}{match[3]}"


InputDigest = Callable[[int], str | None]


def renumber(checkpoint: Path, ahead: int, input_digest: InputDigest) -> None:
    """Let a checkpoint be as many epochs further: in the names of its files, and in its offsets."""
    paths = [path for path in checkpoint.rglob("*") if path.is_file()]
    for path in sorted(paths, key=lambda path: (len(path.name), path.name), reverse=True):
        name = str(path.relative_to(checkpoint))
        if name.startswith("offsets/"):
            path.write_text(_moved_offsets(path.read_text(), ahead, input_digest))
        path.rename(checkpoint / renumber_path(name, ahead))


def _moved_offsets(text: str, ahead: int, input_digest: InputDigest) -> str:
    """The content of a file of offsets; the source's own offset is its last line."""
    *head, last = text.split("\n")
    epoch = json.loads(last)["epoch"] + ahead
    offset = {"epoch": epoch, "input": input_digest(epoch)}
    return "\n".join([*head, json.dumps(offset, separators=(",", ":"))])
