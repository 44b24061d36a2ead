"""Checkpoint folders in Spark's exact layout, written without Spark."""

import io
import json
import random
import struct
import zipfile
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from holdfast.resources.vault.checkpoint.integrity import CODEC, LZ4
from holdfast.resources.vault.checkpoint.lz4 import MAGIC, STORED, checksum

_HEADER = struct.Struct("<8sBiii")


class StateKind(StrEnum):
    """How Spark keeps state."""

    HDFS = "hdfs"
    ROCKSDB = "rocksdb"
    CHANGELOG = "changelog"


@dataclass
class SyntheticCheckpoint:
    """A checkpoint that commits epochs one by one, as a query would leave it behind."""

    root: Path
    kind: StateKind = StateKind.HDFS
    partitions: int = 2
    stores: tuple[str, ...] = ("default",)
    snapshot_every: int = 5
    retain: int = 100
    delta_bytes: int = 64
    snapshot_bytes: int = 256
    packed: bool = (
        False  # whether HDFS-backed state and changelogs are in LZ4 blocks, as Spark's are
    )
    seed: int = 0
    epoch: int = -1
    _random: random.Random = field(init=False)
    _tables: dict[str, list[tuple[str, int]]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311
        self._write("metadata", b'{"id":"00000000-0000-0000-0000-000000000000"}')
        infos = [
            {"storeName": s, "numColsPrefixKey": 0, "numPartitions": self.partitions}
            for s in self.stores
        ]
        described = {"operatorInfo": {"operatorId": 0}, "stateStoreInfo": infos}
        self._write("state/0/_metadata/metadata", b"v1\n" + json.dumps(described).encode())
        for folder in self.store_folders():
            self._write(f"{folder}/_metadata/schema", b"v2 schema")

    def store_folders(self) -> list[str]:
        return [
            f"state/0/{partition}" + ("" if store == "default" else f"/{store}")
            for partition in range(self.partitions)
            for store in self.stores
        ]

    def commit(self, epochs: int = 1) -> int:
        """Commit further epochs and return the last."""
        for _ in range(epochs):
            self.epoch += 1
            self._write(f"offsets/{self.epoch}", self._offsets())
            for folder in self.store_folders():
                self._advance(folder, self.epoch + 1)
            self._write(f"commits/{self.epoch}", b'v1\n{"nextBatchWatermarkMs":0}')
            self._purge()
        return self.epoch

    def repartition(self, partitions: int) -> int:
        """Commit an epoch as Spark's own repartitioning does: whole stores, and the metadata as it was."""
        self.partitions = partitions
        self.epoch += 1
        self._write(f"offsets/{self.epoch}", self._offsets())
        for folder in self.store_folders():
            self._write(f"{folder}/{self.epoch + 1}.zip", self._archive(folder, self.epoch + 1))
        self._write(f"commits/{self.epoch}", b'v1\n{"nextBatchWatermarkMs":0}')
        return self.epoch

    def _offsets(self) -> bytes:
        settings = {CODEC: LZ4} if self.packed else {}
        settings |= {"spark.sql.shuffle.partitions": str(self.partitions)}
        conf = json.dumps({"conf": settings})
        return b"v1\n" + conf.encode() + b"\n{}" + self._bytes(8)

    def _advance(self, folder: str, version: int) -> None:
        whole = version % self.snapshot_every == 0
        if self.kind is StateKind.HDFS:
            self._write(f"{folder}/{version}.delta", self._state(self.delta_bytes))
            if whole:
                self._write(f"{folder}/{version}.snapshot", self._state(self.snapshot_bytes))
            return
        if self.kind is StateKind.CHANGELOG:
            self._write(f"{folder}/{version}.changelog", self._state(self.delta_bytes))
        if whole or self.kind is StateKind.ROCKSDB:
            self._write(f"{folder}/{version}.zip", self._archive(folder, version))

    def _archive(self, folder: str, version: int) -> bytes:
        """A new table each version; now and then all of them are compacted into one."""
        tables = [] if whole_number(version, self.snapshot_every) else self._tables.get(folder, [])
        name = f"{version:06d}-{self._random.randbytes(8).hex()}.sst"
        body = self._bytes(self.snapshot_bytes if not tables else self.delta_bytes)
        self._write(f"{folder}/SSTs/{name}", body)
        self._tables[folder] = [*tables, (name, len(body))]
        named = [
            {"localFileName": n[:6] + ".sst", "dfsSstFileName": n, "sizeBytes": s}
            for n, s in self._tables[folder]
        ]
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr("CURRENT", b"MANIFEST-000005\n")
            archive.writestr("metadata", "v1\n" + json.dumps({"sstFiles": named, "numKeys": 1}))
        return out.getvalue()

    def _purge(self) -> None:
        oldest = self.epoch - self.retain
        for log in ("offsets", "commits"):
            (self.root / log / str(oldest)).unlink(missing_ok=True)

    def _state(self, size: int) -> bytes:
        body = self._bytes(size)
        return lz4(body) if self.packed else body

    def _bytes(self, size: int) -> bytes:
        return self._random.randbytes(max(1, int(size * self._random.uniform(0.5, 1.5))))

    def _write(self, path: str, body: bytes) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(body)
        (target.parent / f".{target.name}.crc").write_bytes(b"crc")


def whole_number(version: int, every: int) -> bool:
    """Whether this version is one at which everything is written again."""
    return version % every == 0


def lz4(*blocks: bytes) -> bytes:
    """Bytes as Spark compresses its state, but stored plain: blocks, and an empty one at the end."""
    return b"".join(_block(body) for body in blocks) + _HEADER.pack(MAGIC, STORED, 0, 0, 0)


def _block(body: bytes) -> bytes:
    return _HEADER.pack(MAGIC, STORED, len(body), len(body), checksum(body)) + body
