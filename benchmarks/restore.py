"""Restoring a large snapshot from the object store, against one plain GET of as many bytes.

The snapshot is a checkpoint in Spark's layout, shipped in several increments; a restore verifies every
digest and ends when the files are there, as in a recovery. The plain GET is one request of one object of
the same size, written to one file. Both come from the same embedded S3 server, in turn.
"""

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import boto3

from benchmarks.harness import Benchmark, median
from benchmarks.snapshot_contenders import Vault
from holdfast.resources.object_store.connection import S3Connection
from holdfast.resources.object_store.embedded import EmbeddedS3
from holdfast.resources.object_store.s3 import S3ObjectStore
from holdfast.resources.vault.vault import SnapshotVault
from tests.builders.checkpoints import SyntheticCheckpoint

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

SIZES = {"small": (8, 1_200_000, 250_000), "large": (16, 24_000_000, 4_000_000)}
"""Partitions, and bytes of a partition's snapshot and of a delta."""
TIMES = {"small": 25, "large": 5}  # what takes a twentieth of a second varies more
INCREMENTS = 3
MOST = 1.5
CHUNK = 8 * 2**20
NOTES = (
    f"{INCREMENTS} incremental snapshots, then {TIMES['small']} (large: {TIMES['large']}) restores and as many plain GETs, alternating; medians. Both "
    "read and write the memory of this machine (tmpfs, if there is one with room), so the time is that of the server, "
    "the network stack and Holdfast. On a disk (ext4) the benchmark would measure its own clean-up: for minutes "
    "after many files were deleted, each new file takes up to 0.7 ms there, and a restore creates many. Two trials of "
    "the small state on a disk gave 1.3 without such deletions and 2.2, over the bar, with them."
)
MEMORY, ROOM_BYTES = Path("/dev/shm"), 4 << 30  # noqa: S108


def plain_client(connection: S3Connection) -> "S3Client":
    """boto3 and nothing else."""
    return boto3.client(
        "s3",
        endpoint_url=connection.endpoint_url,
        region_name=connection.region,
        aws_access_key_id=connection.access_key_id,
        aws_secret_access_key=connection.secret_access_key,
    )


def plain_get(client: "S3Client", bucket: str, key: str, into: Path) -> float:
    """One GET of one object, written to a file as it comes."""
    began = time.monotonic()
    body = client.get_object(Bucket=bucket, Key=key)["Body"]
    with into.open("wb") as file:
        for chunk in body.iter_chunks(CHUNK):
            file.write(chunk)
    return time.monotonic() - began


def measure(benchmark: Benchmark, name: str, server: EmbeddedS3, home: Path) -> None:
    """One size: ship, then restore and get by turns."""
    partitions, snapshot_bytes, delta_bytes = SIZES[name]
    checkpoint = SyntheticCheckpoint(
        home / name,
        partitions=partitions,
        snapshot_every=4,
        delta_bytes=delta_bytes,
        snapshot_bytes=snapshot_bytes,
    )
    store = S3ObjectStore(server.connection)
    vault = Vault(store, home / "scratch", stream=name)
    for _ in range(INCREMENTS):
        vault.ship(checkpoint.root, checkpoint.commit(3))
    assert vault.parent is not None
    size = vault.parent.state_bytes
    connection, key = server.connection(), f"plain/{name}"
    store.put(key, bytes(size))
    client, ours, plain = plain_client(connection), [], []
    folder, file = home / f"{name}-restored", home / f"{name}-plain"
    for _ in range(TIMES[name]):
        began, before = time.monotonic(), store.requests
        SnapshotVault(store, name).restore_newest(folder, durable=False)
        ours.append((time.monotonic() - began, store.requests - before))
        plain.append(plain_get(client, connection.bucket, key, file))
        shutil.rmtree(folder)
        file.unlink()
    restored, got = median([seconds for seconds, _ in ours]), median(plain)
    requests = round(median([asked for _, asked in ours]))
    for contender, seconds, asked in (("holdfast", restored, requests), ("one plain GET", got, 1)):
        benchmark.row(
            state=name,
            contender=contender,
            megabytes=round(size / 1e6, 1),
            requests=asked,
            seconds=seconds,
            seconds_per_gb=round(seconds / size * 1e9, 3),
        )
    benchmark.bar(f"{name}, restore / plain GET", restored / got, "<=", MOST)


def main() -> int:
    """Run both sizes on one embedded S3 server."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    benchmark = Benchmark("restore", "Restoring a snapshot against one plain GET", NOTES)
    with tempfile.TemporaryDirectory(prefix="bench-restore-", dir=_memory()) as folder:
        home = Path(folder)
        server = EmbeddedS3(home / "s3")
        server.ensure()
        try:
            with benchmark.progress(len(SIZES)) as step:
                for name in SIZES:
                    step(f"{name} state")
                    measure(benchmark, name, server, home)
        finally:
            server.stop()
    return benchmark.finish()


def _memory() -> Path | None:
    """A folder that is no disk's, if there is room in it."""
    there = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM_BYTES
    return MEMORY if there else None


if __name__ == "__main__":
    sys.exit(main())
