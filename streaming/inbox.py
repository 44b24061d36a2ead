"""The inbox: the input of epochs to come, fetched to the local disk before a query needs it.

One Arrow file a split, which Spark's tasks map into memory. It holds copies only: a task that does not
find a split here reads it at the source. Spark imports this in its Python workers, so it imports
little itself.
"""

import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

NAME = "inbox"
BLOCK_BYTES = 4096
"""What a folder takes, and what the size of a file is rounded up to: many epochs are smaller than that."""


class Inbox:
    """The prefetched splits of one replica: `<folder>/inbox/<epoch>/<index>-<digest>.arrow`.

    `digest` is that of the epoch's input. An epoch that is decided a second time, because the control store has lost
    its last commits, is not read from what was fetched for the first decision.
    """

    def __init__(self, folder: Path) -> None:
        self._root = folder / NAME

    def write(
        self,
        epoch: int,
        index: int,
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        *,
        digest: str = "",
    ) -> int:
        """Store a split atomically, and return its size in bytes."""
        target = self._path(epoch, index, digest)
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
        try:
            with pa.OSFile(str(beside), "wb") as out, pa.ipc.new_file(out, schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
            size = beside.stat().st_size
            beside.rename(target)
        finally:
            beside.unlink(missing_ok=True)
        return size

    def read(self, epoch: int, index: int, *, digest: str = "") -> Iterator[pa.RecordBatch] | None:
        """The rows of a split, straight from the mapped file; `None` if it is not here."""
        try:
            reader = pa.ipc.open_file(pa.memory_map(str(self._path(epoch, index, digest))))
        except (FileNotFoundError, pa.ArrowInvalid):
            return None
        return (reader.get_batch(number) for number in range(reader.num_record_batches))

    def has(self, epoch: int, splits: int, *, digest: str = "") -> bool:
        """Whether all splits of an epoch are here; an epoch without any always is."""
        return all(self._path(epoch, index, digest).is_file() for index in range(splits))

    def prune(self, through_epoch: int) -> None:
        """Remove everything up to this epoch; a task that has mapped a file can still read it."""
        for epoch in self.epochs():
            if epoch <= through_epoch:
                shutil.rmtree(self._folder(epoch), ignore_errors=True)

    def epochs(self) -> list[int]:
        """The epochs with at least one split here, oldest first."""
        if not self._root.is_dir():
            return []
        return sorted(int(folder.name) for folder in self._root.iterdir() if folder.name.isdigit())

    def count_bytes(self) -> int:
        """What everything here takes on the disk; what is pruned meanwhile may count or not."""
        held = 0
        for folder, _, names in os.walk(self._root):
            held += BLOCK_BYTES
            for name in names:
                with suppress(FileNotFoundError):
                    held += fill_blocks((Path(folder) / name).stat().st_size)
        return held

    def _folder(self, epoch: int) -> Path:
        return self._root / f"{epoch:012d}"

    def _path(self, epoch: int, index: int, digest: str) -> Path:
        return self._folder(epoch) / (f"{index}-{digest}.arrow" if digest else f"{index}.arrow")


def fill_blocks(size: int) -> int:
    """What a file of this size takes on the disk."""
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES
