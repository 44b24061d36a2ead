"""The LZ4 blocks in which Spark writes state: each has its lengths and a checksum before it.

An empty block ends the file. The checksum is XXH32 of the plain bytes without its four highest bits;
blocks of one length are hashed side by side, since NumPy has no loop over bytes.
"""

import struct
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

MAGIC = b"LZ4Block"
SEED = 0x9747B28C
CHECKSUM_BITS = 0x0FFFFFFF
STORED, METHOD = 0x10, 0xF0
AT_ONCE = 256
_HEADER = struct.Struct("<8sBiii")  # magic, method and level, packed and plain length, checksum
_P1, _P2, _P3, _P4, _P5 = (
    np.uint32(prime) for prime in (2654435761, 2246822519, 3266489917, 668265263, 374761393)
)
_Words: TypeAlias = NDArray[np.uint32]


class DamagedError(Exception):
    """A file that is not what Spark has written, and where one sees it."""


@dataclass(frozen=True, slots=True)
class _Packed:
    at: int
    method: int
    body: bytes
    plain_length: int
    checksum: int


@dataclass(frozen=True, slots=True)
class _Block:
    at: int
    plain: bytes
    checksum: int


def fault_in_blocks(opened: BinaryIO) -> str | None:
    """What is wrong with a file of blocks; `None` if it is whole."""
    waiting: dict[int, list[_Block]] = defaultdict(list)
    try:
        for block in map(_unpacked, _packed(opened)):
            alike = waiting[len(block.plain)]
            alike.append(block)
            if len(alike) == AT_ONCE:
                _demand_checksums(waiting.pop(len(block.plain)))
        for alike in waiting.values():
            _demand_checksums(alike)
    except DamagedError as error:
        return str(error)
    return None


def fault_in_frames(opened: BinaryIO) -> str | None:
    """What is wrong as far as the blocks' lengths tell: in a file that was cut they do not add up."""
    try:
        for _ in _packed(opened):
            pass
    except DamagedError as error:
        return str(error)
    return None


def _packed(opened: BinaryIO) -> Iterator[_Packed]:
    at = 0
    while header := opened.read(_HEADER.size):
        if len(header) < _HEADER.size or not header.startswith(MAGIC):
            raise DamagedError(f"no block begins at byte {at}")
        _, method, packed, plain, checksum = _HEADER.unpack(header)
        if plain == 0:
            if opened.read(1):
                raise DamagedError(f"it goes on after its end at byte {at}")
            return
        body = opened.read(max(packed, 0))
        if len(body) != packed:
            raise DamagedError(f"it ends in the block at byte {at}")
        yield _Packed(at, method, body, plain, checksum)
        at += _HEADER.size + packed
    raise DamagedError(f"it ends without an end at byte {at}")


def _unpacked(block: _Packed) -> _Block:
    if block.method & METHOD == STORED:
        return _Block(block.at, block.body, block.checksum)
    try:
        codec = pa.Codec("lz4_raw")
        plain = bytes(codec.decompress(block.body, block.plain_length, asbytes=True))
    except (OSError, ValueError, OverflowError) as error:
        raise DamagedError(f"the block at byte {block.at} cannot be unpacked") from error
    return _Block(block.at, plain, block.checksum)


def _demand_checksums(alike: list[_Block]) -> None:
    """Of blocks that have one length."""
    plain = np.frombuffer(b"".join(block.plain for block in alike), np.uint8)
    found = xxh32(plain.reshape(len(alike), -1), SEED) & np.uint32(CHECKSUM_BITS)
    for block, checksum in zip(alike, found.tolist(), strict=True):
        if checksum != block.checksum:
            raise DamagedError(f"the block at byte {block.at} has another checksum")


def xxh32(rows: NDArray[np.uint8], seed: int) -> _Words:
    """The XXH32 of each row of bytes."""
    count, length = rows.shape
    striped = length // 16 * 16
    total = np.full(count, (seed + int(_P5)) % 2**32, np.uint32)
    if striped:
        total = _stripes(np.ascontiguousarray(rows[:, :striped]).view("<u4"), seed)
    total += np.uint32(length)
    words = striped + (length - striped) // 4 * 4
    for at in range(striped, words, 4):
        word: _Words = np.ascontiguousarray(rows[:, at : at + 4]).view("<u4")[:, 0]
        total = _turned(total + word * _P3, 17) * _P4
    for at in range(words, length):
        total = _turned(total + rows[:, at].astype(np.uint32) * _P5, 11) * _P1
    total = (total ^ (total >> np.uint32(15))) * _P2
    total = (total ^ (total >> np.uint32(13))) * _P3
    return total ^ (total >> np.uint32(16))


def _stripes(words: _Words, seed: int) -> _Words:
    """Four sums over every fourth word each, folded into one."""
    count = len(words)
    start = (seed + int(_P1) + int(_P2), seed + int(_P2), seed, seed - int(_P1))
    sums = np.tile(np.array([number % 2**32 for number in start], np.uint32), (count, 1))
    for stripe in np.moveaxis(words.reshape(count, -1, 4), 1, 0):
        sums = _turned(sums + stripe * _P2, 13) * _P1
    turned = [_turned(sums[:, lane], bits) for lane, bits in enumerate((1, 7, 12, 18))]
    return turned[0] + turned[1] + turned[2] + turned[3]


def _turned(words: _Words, bits: int) -> _Words:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))
