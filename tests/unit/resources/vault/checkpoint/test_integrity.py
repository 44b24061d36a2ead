"""Files of a checkpoint that are not whole give themselves away."""

import json
import struct
import zipfile
import zlib
from pathlib import Path

import pyarrow as pa
import pytest

from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.vault.checkpoint.integrity import (
    CODEC,
    find_damage,
    find_state_damage,
    read_codec,
    require_whole,
)
from holdfast.resources.vault.checkpoint.lz4 import MAGIC, checksum
from tests.builders.checkpoints import StateKind, SyntheticCheckpoint, lz4


def written(file: Path, body: bytes) -> Path:
    file.write_bytes(body)
    return file


def checksummed(file: Path, body: bytes) -> Path:
    """A file with Hadoop's checksums beside it."""
    sums = [zlib.crc32(body[at : at + 512]).to_bytes(4, "big") for at in range(0, len(body), 512)]
    file.with_name(f".{file.name}.crc").write_bytes(b"crc\0\0\0\x02\0" + b"".join(sums))
    return written(file, body)


def test_blocks_up_to_an_empty_one_are_whole(tmp_path: Path) -> None:
    assert find_damage(written(tmp_path / "1.delta", lz4(b"a" * 40, b"b"))) is None
    assert find_damage(written(tmp_path / "2.delta", lz4())) is None


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "it is empty"),
        (b"x" * 50, "no block begins at byte 0"),
        (lz4(b"a" * 40)[:-3], "no block begins at byte 61"),
        (lz4(b"a" * 40)[:-21], "it has no end mark: it ends at byte 61"),
        (lz4(b"a" * 40)[:50], "it ends in the block at byte 0"),
        (lz4(b"a" * 40) + b"more", "it continues after its end mark at byte 61"),
        (
            lz4(b"b", b"a" * 40).replace(b"aaa", b"aXa", 1),
            "the block at byte 22 has a wrong checksum",
        ),
    ],
)
def test_a_state_file_that_is_cut_or_overwritten_is_found(
    tmp_path: Path, body: bytes, reason: str
) -> None:
    assert find_damage(written(tmp_path / "1.delta", body)) == reason


def test_blocks_that_are_packed_are_unpacked_and_checked(tmp_path: Path) -> None:
    plain = b"a stream of words " * 400
    packed = bytearray(a_packed_block(plain))
    end = lz4()
    assert find_damage(written(tmp_path / "1.delta", bytes(packed) + end)) is None
    packed[-6] ^= 0xFF
    reason = find_damage(written(tmp_path / "1.delta", bytes(packed) + end)) or ""
    assert reason.startswith("the block at byte 0 ")


def a_packed_block(plain: bytes) -> bytes:
    packed = pa.Codec("lz4_raw").compress(plain, asbytes=True)
    checksum = int.from_bytes(lz4(plain)[17:21], "little")
    return struct.pack("<8sBiii", MAGIC, 0x25, len(packed), len(plain), checksum) + packed


def test_the_checksum_is_xxh32_as_spark_seeds_and_cuts_it() -> None:
    assert checksum(b"a") == 0x2B7E114
    assert checksum(b"Nobody inspects the spammish repetition") == 0x0B91719  # house: old word


def test_another_codec_is_not_judged_by_its_blocks(tmp_path: Path) -> None:
    assert find_damage(written(tmp_path / "1.delta", b"x" * 50), codec="zstd") is None


def offsets(conf: object) -> bytes:
    return b"v1\n" + json.dumps({"batchWatermarkMs": 0, "conf": conf}).encode() + b'\n{"epoch":7}'


@pytest.mark.parametrize(
    ("bodies", "codec"),
    [
        ([], ""),
        ([offsets({CODEC: "zstd"})], "zstd"),
        ([offsets({CODEC: "zstd"}), offsets({CODEC: "lz4"})], "lz4"),
        ([offsets({CODEC: "zstd"}), b"", b"v1", b"v1\n[]\n{}", b"v1\n\xff\n{}"], "zstd"),
        ([offsets({})], ""),
    ],
)
def test_the_newest_offsets_that_can_be_read_tell_the_codec(
    tmp_path: Path, bodies: list[bytes], codec: str
) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / ".9.crc").touch()
    for number, body in enumerate(bodies, start=8):  # 10 is newer than 9
        written(tmp_path / "offsets" / str(number), body)
    assert read_codec(tmp_path) == codec


def test_without_offsets_there_is_no_codec(tmp_path: Path) -> None:
    assert read_codec(tmp_path) == ""


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (StateKind.HDFS, "state/0/0/7.delta"),
        (StateKind.HDFS, "state/0/0/5.snapshot"),
        (StateKind.CHANGELOG, "state/0/0/7.changelog"),
    ],
)
def test_what_was_cut_is_found_and_not_shipped(tmp_path: Path, kind: StateKind, path: str) -> None:
    epoch = SyntheticCheckpoint(tmp_path, kind=kind, packed=True).commit(7)
    require_whole(tmp_path, [path])
    written(tmp_path / path, (tmp_path / path).read_bytes()[:-10])
    with pytest.raises(PermanentError, match=f"{path} of .* is damaged"):
        require_whole(tmp_path, [path])
    assert [damage.path for damage in find_state_damage(tmp_path, epoch)] == [path]


def test_checksums_beside_a_file_find_a_single_changed_byte(tmp_path: Path) -> None:
    body = bytes(range(256)) * 6000
    file = checksummed(tmp_path / "1.sst", body)
    assert find_damage(file) is None
    flipped = bytearray(body)
    flipped[1_234_567] ^= 1
    reason = "its bytes do not match its checksum file"
    assert find_damage(written(file, bytes(flipped))) == reason
    assert find_damage(written(file, body[:512])) == "it is shorter than its checksum file says"
    assert find_damage(written(file, body + b"x" * 512)) == reason


def test_a_zip_is_read_through(tmp_path: Path) -> None:
    file = tmp_path / "1.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("metadata", "v1\n{}")
    assert find_damage(file) is None
    body = file.read_bytes()
    assert "a wrong checksum" in (find_damage(written(file, body.replace(b"v1", b"v2"))) or "")
    assert "it is not a zip file" in (find_damage(written(file, body[:20])) or "")


def test_a_file_that_has_gone_meanwhile_is_no_damage(tmp_path: Path) -> None:
    assert find_damage(tmp_path / "1.delta") is None


@pytest.mark.parametrize("kind", list(StateKind))
def test_a_whole_checkpoint_has_no_damage(tmp_path: Path, kind: StateKind) -> None:
    checkpoint = SyntheticCheckpoint(tmp_path, kind=kind)
    epoch = checkpoint.commit(7)
    assert list(find_state_damage(tmp_path, epoch)) == []


@pytest.mark.parametrize(
    ("kind", "file", "reason"),
    [
        (StateKind.HDFS, "7.delta", "lacks the change of version 7"),
        (StateKind.HDFS, "5.snapshot", "lacks the change of version 5"),
        (StateKind.ROCKSDB, "7.zip", "lacks the change of version 7"),
        (StateKind.CHANGELOG, "6.changelog", "lacks the change of version 6"),
    ],
)
def test_a_version_that_cannot_be_reached_is_found(
    tmp_path: Path, kind: StateKind, file: str, reason: str
) -> None:
    epoch = SyntheticCheckpoint(tmp_path, kind=kind).commit(7)
    (tmp_path / "state/0/1" / file).unlink()
    if file == "5.snapshot":
        (tmp_path / "state/0/1/5.delta").unlink()
    (damage,) = find_state_damage(tmp_path, epoch)
    assert damage.path == "state/0/1"
    assert reason in damage.reason


def test_shared_files_of_rocksdb_must_be_there_at_their_length(tmp_path: Path) -> None:
    epoch = SyntheticCheckpoint(tmp_path, kind=StateKind.ROCKSDB).commit(7)
    first, second = sorted((tmp_path / "state/0/0/SSTs").glob("*.sst"))[-2:]
    first.unlink()
    second.write_bytes(second.read_bytes()[:-1])
    reasons = {damage.path: damage.reason for damage in find_state_damage(tmp_path, epoch)}
    assert reasons.pop(f"state/0/0/SSTs/{first.name}") == "it is missing, and 7.zip needs it"
    (reason,) = reasons.values()
    assert "7.zip names" in reason


def test_an_operator_must_say_which_stores_it_has(tmp_path: Path) -> None:
    epoch = SyntheticCheckpoint(tmp_path).commit(2)
    (tmp_path / "state/0/_metadata/metadata").write_text("v1\nnot json")
    (damage,) = find_state_damage(tmp_path, epoch)
    assert damage.path == "state/0/_metadata"
