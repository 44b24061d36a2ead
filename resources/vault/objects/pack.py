"""Packing: new files of a checkpoint are copied into local packs, hashed on the way.

The copy is the consistent capture. Spark may remove old files while it runs: a file that is gone or
has another length than in the cut means that the cut is out of date and has to be made again.
"""

import errno
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from holdfast.ft_policies.errors import TransientError
from holdfast.resources.vault.checkpoint.files import CutFile
from holdfast.resources.vault.objects.manifest import Manifest, PackedFile

PACK_LIMIT_BYTES = 1 << 30
_CHUNK_BYTES = 1 << 20
_LIVE_SHARE = 0.5
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}


class OutdatedCutError(Exception):
    """Spark removed a file of the cut before it was copied."""


@dataclass(frozen=True, slots=True)
class LocalPack:
    """A finished pack on the local disk, and what is in it."""

    source: Path
    name: str
    size_bytes: int
    files: tuple[PackedFile, ...]


def find_reusable(files: Sequence[CutFile], parent: Manifest | None) -> dict[str, PackedFile]:
    """The files that are in the parent's packs already, except in packs that are mostly unused.

    The used files of such a pack count as new and are written again, so the pack is garbage as soon as
    no kept snapshot names it.
    """
    if parent is None:
        return {}
    stored = {file.path: file for file in parent.files}
    kept = {
        file.path: stored[file.path]
        for file in files
        if file.path in stored and stored[file.path].size_bytes == file.size_bytes
    }
    live = dict.fromkeys(parent.packs, 0)
    for packed in kept.values():
        live[packed.pack] += packed.size_bytes
    sparse = {pack for pack, size in parent.packs.items() if live[pack] < _LIVE_SHARE * size}
    return {path: packed for path, packed in kept.items() if packed.pack not in sparse}


def pack(
    checkpoint: Path, files: Sequence[CutFile], scratch: Path, *, stem: str, limit_bytes: int
) -> list[LocalPack]:
    """Copy files into packs of at most `limit_bytes`; only a larger file makes a larger pack."""
    return [
        _write(checkpoint, group, scratch / f"{number}.pack", stem)
        for number, group in enumerate(_groups(files, limit_bytes))
    ]


@contextmanager
def disk_errors(doing: str, where: Path) -> Iterator[None]:
    """Turn a full disk into a transient error: it ends once there is space again."""
    try:
        yield
    except OSError as error:
        if error.errno not in _DISK_FULL:
            raise
        raise TransientError(
            f"{doing} failed: the disk of {where} is full",
            hint=f"free space on the disk that holds {where}",
        ) from error


def _groups(files: Sequence[CutFile], limit_bytes: int) -> Iterator[list[CutFile]]:
    group: list[CutFile] = []
    size = 0
    for file in files:
        if group and size + file.size_bytes > limit_bytes:
            yield group
            group, size = [], 0
        group.append(file)
        size += file.size_bytes
    if group:
        yield group


def _write(checkpoint: Path, files: Sequence[CutFile], target: Path, stem: str) -> LocalPack:
    """One pack; its name ends with a digest of its contents, so that no other pack can replace it."""
    placed: list[tuple[CutFile, int, bytes]] = []
    offset = 0
    with target.open("wb") as out:
        for file in files:
            placed.append((file, offset, _copy(checkpoint / file.path, file.size_bytes, out)))
            offset += file.size_bytes
    contents = hashlib.sha256(b"".join(digest for _, _, digest in placed)).hexdigest()
    name = f"{stem}.{contents[:12]}.pack"
    packed = (PackedFile(f.path, name, at, f.size_bytes, digest) for f, at, digest in placed)
    return LocalPack(target, name, offset, tuple(packed))


def _copy(source: Path, size_bytes: int, out: BinaryIO) -> bytes:
    digest = hashlib.sha256()
    copied = 0
    try:
        with source.open("rb") as opened:
            while chunk := opened.read(_CHUNK_BYTES):
                digest.update(chunk)
                out.write(chunk)
                copied += len(chunk)
    except FileNotFoundError as error:
        raise OutdatedCutError(f"{source} was removed") from error
    if copied != size_bytes:
        raise OutdatedCutError(f"{source} has {copied} bytes, not {size_bytes}")
    return digest.digest()


def packs_in_use(files: Sequence[PackedFile], sizes: Mapping[str, int]) -> dict[str, int]:
    """The packs that hold at least one of the files, with their full lengths."""
    used = {file.pack for file in files}
    return {pack: size for pack, size in sizes.items() if pack in used}


def count_new_bytes(manifest: Manifest, parent: Manifest | None) -> int:
    """How much of a snapshot its parent does not have."""
    present = {(f.path, f.size_bytes) for f in parent.files} if parent is not None else set()
    return sum(f.size_bytes for f in manifest.files if (f.path, f.size_bytes) not in present)
