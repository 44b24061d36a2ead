"""What can befall a real checkpoint of Spark, each with what the doctor calls it."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from holdfast.ft_policies.doctor.findings import FindingKind as Kind
from holdfast.resources.vault.checkpoint.files import list_numbers, read_shared_sizes
from holdfast.streaming.spark.checkpoint import last_committed
from tests.live.spark_stream import HDFS, SparkStream


def newest(checkpoint: Path) -> int:
    epoch = last_committed(checkpoint)
    assert epoch is not None
    return epoch


def flip(file: Path) -> None:
    body = bytearray(file.read_bytes())
    body[len(body) // 2] ^= 0xFF
    file.write_bytes(bytes(body))


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-10])


def a_table_of_rocksdb(checkpoint: Path) -> Path:
    """A file that the newest version of some store needs."""
    version = newest(checkpoint) + 1
    for store in sorted(checkpoint.glob("state/0/[0-9]*")):
        for name in read_shared_sizes(store / f"{version}.zip"):
            return store / name
    raise AssertionError("no store has a table")


Damage: TypeAlias = tuple[Kind, Callable[[Path], None]]
IN_LOGS: dict[str, Damage] = {
    "an offset is gone": (
        Kind.HOLE_IN_OFFSETS,
        lambda at: (at / "offsets" / str(newest(at) - 1)).unlink(),
    ),
    "a commit is gone": (
        Kind.HOLE_IN_COMMITS,
        lambda at: (at / "commits" / str(newest(at) - 1)).unlink(),
    ),
    "a commit is ahead": (
        Kind.COMMIT_AHEAD_OF_OFFSET,
        lambda at: [
            (at / "offsets" / str(n)).unlink()
            for n in list_numbers(at / "offsets")
            if n >= newest(at)
        ],
    ),
    "the metadata is gone": (Kind.MISSING_METADATA, lambda at: (at / "metadata").unlink()),
}
ON_HDFS: dict[str, Damage] = {
    "a delta is gone": (
        Kind.STATE_FILE,
        lambda at: (at / "state/0/0" / f"{newest(at) + 1}.delta").unlink(),
    ),
    "a delta is cut": (
        Kind.STATE_FILE,
        lambda at: cut(at / "state/0/1" / f"{newest(at) + 1}.delta"),
    ),
    "a delta is changed": (
        Kind.STATE_FILE,
        lambda at: flip(at / "state/0/0" / f"{newest(at) + 1}.delta"),
    ),
}
ON_ROCKSDB: dict[str, Damage] = {
    "a version is gone": (
        Kind.STATE_FILE,
        lambda at: (at / "state/0/0" / f"{newest(at) + 1}.zip").unlink(),
    ),
    "a version is cut": (
        Kind.STATE_FILE,
        lambda at: cut(at / "state/0/1" / f"{newest(at) + 1}.zip"),
    ),
    "a table is gone": (Kind.STATE_FILE, lambda at: a_table_of_rocksdb(at).unlink()),
    "a table is changed": (Kind.STATE_FILE, lambda at: flip(a_table_of_rocksdb(at))),
}
ON_CHANGELOGS: dict[str, Damage] = {
    "a changelog is gone": (
        Kind.STATE_FILE,
        lambda at: (at / "state/0/0" / f"{newest(at) + 1}.changelog").unlink(),
    ),
    "a changelog is cut": (
        Kind.STATE_FILE,
        lambda at: cut(at / "state/0/1" / f"{newest(at) + 1}.changelog"),
    ),
    "a changelog is changed": (
        Kind.STATE_FILE,
        lambda at: flip(at / "state/0/0" / f"{newest(at) + 1}.changelog"),
    ),
}


def the_same(stream: SparkStream, on_hdfs: str, on_rocksdb: str) -> Callable[[Path], None]:
    """A damage to state, as it is done to this stream's store."""
    _, damage = ON_HDFS[on_hdfs] if stream.conf is HDFS else ON_ROCKSDB[on_rocksdb]
    return damage
