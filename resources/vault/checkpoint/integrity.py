"""Damage in the files of a local checkpoint that Spark needs to continue.

Spark compresses HDFS-backed state and RocksDB's changelogs in LZ4 blocks with checksums, unless another
codec is configured; a RocksDB checkpoint is a zip. Where Hadoop writes a `.crc` file beside, it has the checksum of each
512 bytes. A file that was removed meanwhile is no damage: Spark removes old files while it runs.
"""

import hashlib
import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from holdfast.ft_policies.doctor.facts import Damage
from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.vault.checkpoint.files import (
    find_chain,
    list_entries,
    list_numbered_folders,
    list_stores,
    read_shared_sizes,
)
from holdfast.resources.vault.checkpoint.lz4 import find_block_damage, find_frame_damage
from holdfast.resources.vault.objects.manifest import Manifest, PackedFile
from holdfast.resources.vault.restore import names_its_folder

_CRC_HEADER = struct.Struct(">4sI")
_CHUNKS = 2048
LZ4 = "lz4"
CODEC = "spark.sql.streaming.stateStore.compression.codec"
_COMPRESSED = {".delta", ".snapshot", ".changelog"}


def find_damage(file: Path, *, codec: str = LZ4) -> str | None:
    """The damage of a file; `None` if there is none, or if the file was removed meanwhile."""
    try:
        if file.stat().st_size == 0:
            return "it is empty"
        return _find_checksum_damage(file) or _find_format_damage(file, codec)
    except FileNotFoundError:
        return None


def read_codec(checkpoint: Path) -> str:
    """The codec of the state of a checkpoint, as its offsets name it; empty if they do not.

    It may differ from the declared one: Spark keeps the codec that a checkpoint began with.
    """
    folder = checkpoint / "offsets"
    numbers = [int(entry.name) for entry in folder.glob("[0-9]*") if entry.name.isdigit()]
    for number in sorted(numbers, reverse=True):
        try:
            _, metadata, *_ = (folder / str(number)).read_bytes().split(b"\n")
            return str(json.loads(metadata)["conf"][CODEC])
        except (FileNotFoundError, ValueError, LookupError, TypeError):
            continue
    return ""


def require_whole(checkpoint: Path, paths: Iterable[str]) -> None:
    """Refuse to ship truncated state files, which could not be restored.

    It runs beside a query, so checksums of blocks are left to the doctor: they cost too much.
    """
    codec = read_codec(checkpoint)
    for path in paths:
        file = checkpoint / path
        damage = "it is empty" if file.stat().st_size == 0 else None
        damage = damage or _find_format_damage(file, codec, of_blocks=find_frame_damage)
        if damage is not None:
            raise PermanentError(
                f"{path} of {checkpoint} is damaged: {damage}",
                hint="run `holdfast doctor`; older snapshots are not affected",
            )


def _find_format_damage(
    file: Path, codec: str, of_blocks: Callable[[BinaryIO], str | None] = find_block_damage
) -> str | None:
    if file.suffix == ".zip":
        return _find_zip_damage(file)
    if file.suffix in _COMPRESSED and codec == LZ4:
        with file.open("rb") as opened:
            return of_blocks(opened)
    return None


def _find_zip_damage(file: Path) -> str | None:
    try:
        with zipfile.ZipFile(file) as opened:
            bad = opened.testzip()
    except zipfile.BadZipFile as error:
        return f"it is not a zip file: {error}"
    return None if bad is None else f"{bad} in it has a wrong checksum"


def _find_checksum_damage(file: Path) -> str | None:
    beside = file.with_name(f".{file.name}.crc")
    try:
        sums = beside.read_bytes()
    except FileNotFoundError:
        return None
    if len(sums) < _CRC_HEADER.size or not sums.startswith(b"crc\0"):
        return None
    _, each = _CRC_HEADER.unpack_from(sums)
    expected = sums[_CRC_HEADER.size :]
    at = 0
    with file.open("rb") as opened:
        while portion := opened.read(each * _CHUNKS):
            computed = b"".join(
                zlib.crc32(portion[begin : begin + each]).to_bytes(4, "big")
                for begin in range(0, len(portion), each)
            )
            if expected[at : at + len(computed)] != computed:
                return "its bytes do not match its checksum file"
            at += len(computed)
    return None if at == len(expected) else "it is shorter than its checksum file says"


def find_state_damage(checkpoint: Path, epoch: int) -> Iterator[Damage]:
    """The damage that prevents Spark from continuing after an epoch, in each state store."""
    codec = read_codec(checkpoint)
    for operator in list_numbered_folders(checkpoint / "state"):
        home = f"state/{operator}"
        try:
            stores = list_stores(checkpoint, home, epoch)
        except FileNotFoundError:
            continue
        except (PermanentError, ValueError, KeyError, IndexError) as error:
            yield Damage(f"{home}/_metadata", str(error))
            continue
        for store in stores:
            yield from _find_store_damage(checkpoint, store, epoch + 1, codec)


def find_changed_files(checkpoint: Path, manifest: Manifest, *, deep: bool) -> Iterator[Damage]:
    """State files that changed since they were shipped; `deep` compares digests, not only lengths."""
    for file in manifest.files:
        if file.path.startswith("state/") and not names_its_folder(file):
            reason = _find_change(checkpoint / file.path, file, deep=deep)
            if reason is not None:
                yield Damage(file.path, reason)


def _find_change(local: Path, file: PackedFile, *, deep: bool) -> str | None:
    """How a file differs from the shipped one; `None` if it does not, or if Spark has deleted it."""
    try:
        size_bytes = local.stat().st_size
        if size_bytes != file.size_bytes:
            return f"it has {size_bytes} bytes, but had {file.size_bytes} when it was shipped"
        if deep and hash_file(local) != file.sha256:
            return "its digest has changed since it was shipped"
    except FileNotFoundError:
        pass
    return None


def hash_file(file: Path) -> bytes:
    """The SHA-256 of a file, as manifests have it."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").digest()


def _find_store_damage(checkpoint: Path, store: str, version: int, codec: str) -> Iterator[Damage]:
    home = checkpoint / store
    names = [entry.name for entry in list_entries(home) if entry.is_file()]
    try:
        chain = find_chain(names, version, store=store)
    except PermanentError as error:
        yield Damage(store, str(error).removeprefix(f"{store} "))
        return
    for name in chain.names:
        reason = find_damage(home / name, codec=codec)
        if reason is not None:
            yield Damage(f"{store}/{name}", reason)
        elif name.endswith(".zip"):
            yield from _find_shared_damage(home, store, name)


def _find_shared_damage(home: Path, store: str, archive: str) -> Iterator[Damage]:
    try:
        needed = read_shared_sizes(home / archive)
    except FileNotFoundError:
        return
    except PermanentError as error:
        yield Damage(f"{store}/{archive}", str(error))
        return
    for name, size_bytes in needed.items():
        file = home / name
        if not file.is_file():
            if (home / archive).is_file():
                yield Damage(f"{store}/{name}", f"it is missing, and {archive} needs it")
        elif file.stat().st_size != size_bytes:
            length = f"it has {file.stat().st_size} bytes, but {archive} names {size_bytes}"
            yield Damage(f"{store}/{name}", length)
        elif (reason := find_damage(file)) is not None:
            yield Damage(f"{store}/{name}", reason)
