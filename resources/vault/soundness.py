"""Whether a file of a checkpoint is whole, as far as it tells by itself.

Spark compresses HDFS-backed state and RocksDB's changelogs in LZ4 blocks with checksums, unless it was told
another codec; a RocksDB checkpoint is a zip. Where Hadoop writes a `.crc` file beside, it has the checksum of each
512 bytes. A file that has gone meanwhile is no fault: Spark tidies up while one looks.
"""

import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

from ft_policies.errors import PermanentError
from resources.vault.lz4_blocks import fault_in_blocks, fault_in_frames

_CRC_HEADER = struct.Struct(">4sI")
_CHUNKS = 2048
LZ4 = "lz4"
CODEC = "spark.sql.streaming.stateStore.compression.codec"
_COMPRESSED = {".delta", ".snapshot", ".changelog"}


def fault_of(file: Path, *, codec: str = LZ4) -> str | None:
    """What is wrong with a file; `None` if nothing is, or if it is gone by now."""
    try:
        if file.stat().st_size == 0:
            return "it is empty"
        return _wrong_checksum(file) or _wrong_format(file, codec)
    except FileNotFoundError:
        return None


def codec_of(checkpoint: Path) -> str:
    """How the state of a checkpoint is compressed, as its offsets tell; nothing if they do not.

    It is not what is declared now: Spark goes on with the codec that a checkpoint began with.
    """
    folder = checkpoint / "offsets"
    numbers = [int(one.name) for one in folder.glob("[0-9]*") if one.name.isdigit()]
    for number in sorted(numbers, reverse=True):
        try:
            _, told, *_ = (folder / str(number)).read_bytes().split(b"\n")
            return str(json.loads(told)["conf"][CODEC])
        except (FileNotFoundError, ValueError, LookupError, TypeError):
            continue
    return ""


def demand_whole(checkpoint: Path, paths: Iterable[str]) -> None:
    """Refuse state files that were cut: what is shipped of them could not be restored.

    It runs beside a query, so checksums of blocks are left to the doctor: they cost too much.
    """
    codec = codec_of(checkpoint)
    for path in paths:
        file = checkpoint / path
        fault = "it is empty" if file.stat().st_size == 0 else None
        fault = fault or _wrong_format(file, codec, of_blocks=fault_in_frames)
        if fault is not None:
            raise PermanentError(
                f"{path} of {checkpoint} is damaged: {fault}",
                hint="older snapshots are good still: `holdfast doctor` tells what to do",
            )


def _wrong_format(
    file: Path, codec: str, of_blocks: Callable[[BinaryIO], str | None] = fault_in_blocks
) -> str | None:
    if file.suffix == ".zip":
        return _wrong_zip(file)
    if file.suffix in _COMPRESSED and codec == LZ4:
        with file.open("rb") as opened:
            return of_blocks(opened)
    return None


def _wrong_zip(file: Path) -> str | None:
    try:
        with zipfile.ZipFile(file) as opened:
            bad = opened.testzip()
    except zipfile.BadZipFile as error:
        return f"it is no zip: {error}"
    return None if bad is None else f"{bad} in it has another checksum"


def _wrong_checksum(file: Path) -> str | None:
    beside = file.with_name(f".{file.name}.crc")
    try:
        sums = beside.read_bytes()
    except FileNotFoundError:
        return None
    if len(sums) < _CRC_HEADER.size or not sums.startswith(b"crc\0"):
        return None
    _, each = _CRC_HEADER.unpack_from(sums)
    wanted = sums[_CRC_HEADER.size :]
    at = 0
    with file.open("rb") as opened:
        while portion := opened.read(each * _CHUNKS):
            found = b"".join(
                zlib.crc32(portion[begin : begin + each]).to_bytes(4, "big")
                for begin in range(0, len(portion), each)
            )
            if wanted[at : at + len(found)] != found:
                return "its bytes do not have the checksums beside it"
            at += len(found)
    return None if at == len(wanted) else "it is shorter than its checksums"
