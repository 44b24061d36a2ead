"""Snapshots of a checkpoint of thousands of files: Holdfast against file by file and rclone.

All contenders store the same set of files, the cut, in the same embedded S3 server: Holdfast's vault
as packs and a manifest; boto3's own transfer manager as one object per file, in a pool of threads;
`rclone sync` of a folder that holds the cut (hard links, made before the clock starts). An incremental
snapshot is what one more epoch adds; a restore brings the whole cut back into an empty folder.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import Benchmark, median
from benchmarks.snapshot_contenders import Contender, FileByFile, Measured, RcloneSync, Vault
from holdfast.resources.object_store.embedded import EmbeddedS3
from holdfast.resources.object_store.s3 import S3ObjectStore
from holdfast.resources.vault.checkpoint.files import cut
from tests.builders.checkpoints import StateKind, SyntheticCheckpoint

PARTITIONS = 400
SNAPSHOT_EVERY = 10
FIRST_EPOCH = 13
DELTA_BYTES = 12_000
SNAPSHOT_BYTES = 60_000
INCREMENTS = 10
RESTORES = 3
SMALLER_DELTAS = (3_000, 1_000, 200)
NOTES = (
    f"A generated checkpoint in Spark's layout: HDFS-backed state in {PARTITIONS} partitions, deltas of "
    f"{DELTA_BYTES // 1000} KB on average, a snapshot of {SNAPSHOT_BYTES // 1000} KB every {SNAPSHOT_EVERY} "
    f"epochs. All contenders store and restore the same files; {INCREMENTS} increments are one whole cycle "
    "of deltas and snapshots. Medians. Only Holdfast verifies digests and waits for the disk (syncfs). "
    "The manifest names every file of the cut, about 40 bytes each, so smaller deltas raise its share: the last rows "
    "show by how much."
)


@dataclass
class Results:
    """Everything that was measured of one contender."""

    first: Measured
    increments: list[Measured]
    restores: list[Measured]


def same_files(checkpoint: Path, epoch: int, restored: Path) -> bool:
    """Whether a restored folder holds the cut, to the byte."""
    expected = {file.path for file in cut(checkpoint, epoch)}
    paths = {str(p.relative_to(restored)) for p in restored.rglob("*") if p.is_file()}
    return paths == expected and all(
        (restored / path).read_bytes() == (checkpoint / path).read_bytes() for path in expected
    )


def measure(
    contenders: Sequence[Contender],
    checkpoint: SyntheticCheckpoint,
    home: Path,
    step: Callable[[str], None],
) -> dict[str, Results]:
    """Let all contenders ship the same epochs and restore the last, in turn."""
    epoch = checkpoint.commit(FIRST_EPOCH + 1)
    results = {}
    for contender in contenders:
        step(f"{contender.name}: first snapshot")
        results[contender.name] = Results(contender.ship(checkpoint.root, epoch), [], [])
    for _ in range(INCREMENTS):
        epoch = checkpoint.commit()
        for contender in contenders:
            step(f"{contender.name}: snapshot of epoch {epoch}")
            results[contender.name].increments.append(contender.ship(checkpoint.root, epoch))
    for number in range(RESTORES):
        for contender in contenders:
            step(f"{contender.name}: restore {number + 1}")
            into = home / f"restored-{number}-{contender.name.split()[0].strip(',')}"
            results[contender.name].restores.append(contender.restore(into))
            if not same_files(checkpoint.root, epoch, into):
                raise SystemExit(f"{contender.name} did not restore the checkpoint")
    return results


def report(benchmark: Benchmark, results: dict[str, Results], files: int, new_bytes: int) -> None:
    """The table and the bars."""
    for name, result in results.items():
        for what, measured in (
            ("first snapshot", [result.first]),
            ("incremental snapshot", result.increments),
            ("restore", result.restores),
        ):
            benchmark.row(
                contender=name,
                operation=what,
                requests=round(median([m.requests for m in measured])),
                megabytes=median([m.bytes / 1e6 for m in measured]),
                seconds=median([m.seconds for m in measured]),
            )
    ours, by_file = results["holdfast"], results["boto3, one object per file"]
    sent = sum(m.bytes for m in ours.increments)
    faster = median([m.seconds for m in by_file.restores]) / median(
        [m.seconds for m in ours.restores]
    )
    benchmark.bar("files in the checkpoint that is restored", files, ">=", 2000)
    most = max(m.requests for m in ours.increments)
    benchmark.bar("requests of an incremental snapshot, at most", most, "<=", 3)
    benchmark.bar(
        "bytes sent / bytes that are new, over all increments", sent / new_bytes, "<=", 1.1
    )
    benchmark.bar("restore, times faster than file by file", faster, ">=", 5)


def smaller_deltas(benchmark: Benchmark, store: S3ObjectStore, home: Path) -> None:
    """How the share of the manifest grows as there is less that is new: shown, but not a bar."""
    for size in SMALLER_DELTAS:
        checkpoint = SyntheticCheckpoint(
            home / f"small-{size}",
            partitions=PARTITIONS,
            snapshot_every=SNAPSHOT_EVERY,
            delta_bytes=size,
            snapshot_bytes=5 * size,
        )
        contender = Vault(store, home / "scratch", stream=f"small-{size}")
        contender.ship(checkpoint.root, checkpoint.commit(FIRST_EPOCH + 1))
        contender.new_bytes = 0
        measured = [contender.ship(checkpoint.root, checkpoint.commit()) for _ in range(INCREMENTS)]
        benchmark.row(
            contender=f"holdfast, deltas of {size:,} bytes",
            operation="incremental snapshot",
            requests=round(median([m.requests for m in measured])),
            megabytes=median([m.bytes / 1e6 for m in measured]),
            seconds=median([m.seconds for m in measured]),
            sent_per_new_byte=round(sum(m.bytes for m in measured) / contender.new_bytes, 3),
        )


def main() -> int:
    """Run all contenders on one embedded S3 server."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    benchmark = Benchmark(
        "snapshots", "Snapshots of a checkpoint of thousands of files", notes=NOTES
    )
    with tempfile.TemporaryDirectory(prefix="bench-snapshots-") as folder:
        home = Path(folder)
        server = EmbeddedS3(home / "s3")
        where = server.ensure()
        try:
            checkpoint = SyntheticCheckpoint(
                home / "checkpoint",
                StateKind.HDFS,
                partitions=PARTITIONS,
                snapshot_every=SNAPSHOT_EVERY,
                delta_bytes=DELTA_BYTES,
                snapshot_bytes=SNAPSHOT_BYTES,
            )
            by_file = FileByFile(where)
            contenders: list[Contender] = [
                Vault(S3ObjectStore(server.connection), home / "scratch"),
                by_file,
                RcloneSync(where, home / "staging"),
            ]
            with benchmark.progress(len(contenders) * (1 + INCREMENTS + RESTORES)) as step:
                results = measure(contenders, checkpoint, home, step)
            files = len(cut(checkpoint.root, checkpoint.epoch))
            new_bytes = sum(m.bytes for m in results[by_file.name].increments)
            report(benchmark, results, files, new_bytes)
            smaller_deltas(benchmark, S3ObjectStore(server.connection), home)
        finally:
            server.stop()
    return benchmark.finish()


if __name__ == "__main__":
    sys.exit(main())
