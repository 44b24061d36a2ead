"""The LZ4 blocks in which Spark writes state: each has its lengths and a checksum before it.

An empty block ends the file. The checksum is XXH32 of the plain bytes without its four highest bits.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa
import xxhash

MAGIC = b"LZ4Block"
SEED = 0x9747B28C
CHECKSUM_BITS = 0x0FFFFFFF
STORED, METHOD = 0x10, 0xF0
_HEADER = struct.Struct("<8sBiii")  # magic, method and level, packed and plain length, checksum


class DamagedError(Exception):
    """A file that is not as Spark has written it; the message says where."""


@dataclass(frozen=True, slots=True)
class _Block:
    at: int
    method: int
    body: bytes
    plain_length: int
    checksum: int


def find_block_damage(opened: BinaryIO) -> str | None:
    """The damage of a file of blocks; `None` if there is none."""
    try:
        for block in _read_blocks(opened):
            if checksum(_unpack(block)) != block.checksum:
                return f"the block at byte {block.at} has a wrong checksum"
    except DamagedError as error:
        return str(error)
    return None


def find_frame_damage(opened: BinaryIO) -> str | None:
    """The damage that the blocks' lengths show, which do not add up in a truncated file."""
    try:
        for _ in _read_blocks(opened):
            pass
    except DamagedError as error:
        return str(error)
    return None


def checksum(plain: bytes) -> int:
    """The checksum that the header of a block has."""
    return xxhash.xxh32_intdigest(plain, seed=SEED) & CHECKSUM_BITS


def _read_blocks(opened: BinaryIO) -> Iterator[_Block]:
    at = 0
    while header := opened.read(_HEADER.size):
        if len(header) < _HEADER.size or not header.startswith(MAGIC):
            raise DamagedError(f"no block begins at byte {at}")
        _, method, packed, plain, expected = _HEADER.unpack(header)
        if plain == 0:
            if opened.read(1):
                raise DamagedError(f"it continues after its end mark at byte {at}")
            return
        body = opened.read(max(packed, 0))
        if len(body) != packed:
            raise DamagedError(f"it ends in the block at byte {at}")
        yield _Block(at, method, body, plain, expected)
        at += _HEADER.size + packed
    raise DamagedError(f"it has no end mark: it ends at byte {at}")


def _unpack(block: _Block) -> bytes:
    if block.method & METHOD == STORED:
        return block.body
    try:
        return bytes(pa.Codec("lz4_raw").decompress(block.body, block.plain_length, asbytes=True))
    except (OSError, ValueError, OverflowError) as error:
        raise DamagedError(f"the block at byte {block.at} cannot be unpacked") from error
