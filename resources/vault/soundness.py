"""Whether a file of a checkpoint is whole, as far as it tells by itself.

Spark compresses HDFS-backed state in LZ4 blocks with checksums; a RocksDB checkpoint is a zip. Where
Hadoop writes a `.crc` file beside, it has the checksum of each 512 bytes. A file that has gone
meanwhile is no fault: Spark tidies up while one looks.
"""

import struct
import zipfile
import zlib
from pathlib import Path

from resources.vault.lz4_blocks import fault_in_blocks

_CRC_HEADER = struct.Struct(">4sI")
_CHUNKS = 2048
LZ4 = "lz4"


def fault_of(file: Path, *, codec: str = LZ4) -> str | None:
    """What is wrong with a file; `None` if nothing is, or if it is gone by now."""
    try:
        if file.stat().st_size == 0:
            return "it is empty"
        return _wrong_checksum(file) or _wrong_format(file, codec)
    except FileNotFoundError:
        return None


def _wrong_format(file: Path, codec: str) -> str | None:
    if file.suffix == ".zip":
        return _wrong_zip(file)
    if file.suffix in {".delta", ".snapshot"} and codec == LZ4:
        with file.open("rb") as opened:
            return fault_in_blocks(opened)
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
