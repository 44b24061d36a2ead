"""The ways to keep snapshots that `snapshots.py` compares."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config

from holdfast.resources.object_store.connection import S3Connection
from holdfast.resources.object_store.s3 import S3ObjectStore
from holdfast.resources.vault.checkpoint.files import cut
from holdfast.resources.vault.objects.manifest import Manifest
from holdfast.resources.vault.vault import SnapshotVault

THREADS = 16


@dataclass(frozen=True, slots=True)
class Measured:
    """One operation of one contender."""

    requests: int
    bytes: int
    seconds: float


class Contender(Protocol):
    """A way to keep snapshots."""

    name: str

    def ship(self, checkpoint: Path, epoch: int) -> Measured:
        """Store what the checkpoint needs after an epoch."""
        ...

    def restore(self, into: Path) -> Measured:
        """Bring the last stored checkpoint back."""
        ...


@dataclass
class Vault:
    """Holdfast's snapshot vault."""

    store: S3ObjectStore
    scratch: Path
    name: str = "holdfast"
    stream: str = "bench"
    parent: Manifest | None = None
    new_bytes: int = 0

    def ship(self, checkpoint: Path, epoch: int) -> Measured:
        """Two PUTs."""
        before, began = self.store.requests, time.perf_counter()
        shipped = SnapshotVault(self.store, self.stream).ship(
            checkpoint,
            epoch,
            token=1,
            replica="r1",
            parent=self.parent,
            conf={},
            created_at=0.0,
            scratch=self.scratch,
        )
        self.parent = shipped.manifest
        self.new_bytes += shipped.new_bytes
        sent = shipped.pack_bytes + shipped.manifest_bytes
        return Measured(self.store.requests - before, sent, time.perf_counter() - began)

    def restore(self, into: Path) -> Measured:
        """A listing, a manifest, and ranges of packs."""
        before, began = self.store.requests, time.perf_counter()
        newest = SnapshotVault(self.store, self.stream).restore_newest(into)
        assert newest is not None
        return Measured(
            self.store.requests - before, newest.restored.bytes, time.perf_counter() - began
        )


@dataclass
class FileByFile:
    """One object per file, with boto3's transfer manager in a pool of threads."""

    where: S3Connection
    name: str = "boto3, one object per file"
    stored: dict[str, int] = field(default_factory=dict)
    requests: int = 0

    def __post_init__(self) -> None:
        self.client: Any = boto3.session.Session().client(
            "s3",
            endpoint_url=self.where.endpoint_url,
            region_name=self.where.region,
            aws_access_key_id=self.where.access_key_id,
            aws_secret_access_key=self.where.secret_access_key,
            config=Config(max_pool_connections=THREADS, s3={"addressing_style": "path"}),
        )
        self.client.meta.events.register("before-send.s3", self._count)
        self.transfer = TransferConfig(use_threads=False)
        self.client.create_bucket(Bucket="by-file")

    def _count(self, **_: object) -> None:
        self.requests += 1

    def ship(self, checkpoint: Path, epoch: int) -> Measured:
        """A PUT for each new file."""
        before, began = self.requests, time.perf_counter()
        files = {file.path: file.size_bytes for file in cut(checkpoint, epoch)}
        new = [path for path, size in files.items() if self.stored.get(path) != size]
        self._each(
            lambda path: self.client.upload_file(
                str(checkpoint / path), "by-file", path, Config=self.transfer
            ),
            new,
        )
        self.stored = files
        sent = sum(files[path] for path in new)
        return Measured(self.requests - before, sent, time.perf_counter() - began)

    def restore(self, into: Path) -> Measured:
        """A HEAD and a GET for each file."""
        before, began = self.requests, time.perf_counter()
        for folder in {(into / path).parent for path in self.stored}:
            folder.mkdir(parents=True, exist_ok=True)
        self._each(
            lambda path: self.client.download_file(
                "by-file", path, str(into / path), Config=self.transfer
            ),
            list(self.stored),
        )
        return Measured(
            self.requests - before, sum(self.stored.values()), time.perf_counter() - began
        )

    def _each(self, act: Callable[[str], None], paths: Sequence[str]) -> None:
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(act, paths))


@dataclass
class RcloneSync:
    """`rclone sync` of a folder that holds exactly the cut, compared by size as files never change.

    Its requests can only be counted by its debug log, which costs time: they are counted in a second
    run against a second target, and only the first run is timed.
    """

    where: S3Connection
    staging: Path
    name: str = "rclone sync"
    stored: dict[str, int] = field(default_factory=dict)

    def ship(self, checkpoint: Path, epoch: int) -> Measured:
        """Link the cut into a folder, then synchronise it."""
        shutil.rmtree(self.staging, ignore_errors=True)
        files = {file.path: file.size_bytes for file in cut(checkpoint, epoch)}
        for path in files:
            (self.staging / path).parent.mkdir(parents=True, exist_ok=True)
            (self.staging / path).hardlink_to(checkpoint / path)
        sent = sum(size for path, size in files.items() if self.stored.get(path) != size)
        self.stored = files
        return self._sync(
            (str(self.staging), "there:timed"), (str(self.staging), "there:counted"), sent
        )

    def restore(self, into: Path) -> Measured:
        """Synchronise into an empty folder."""
        counted = into.with_name(into.name + "-counted")
        size = sum(self.stored.values())
        return self._sync(("there:timed", str(into)), ("there:counted", str(counted)), size)

    def _sync(self, timed: tuple[str, str], counted: tuple[str, str], sent: int) -> Measured:
        began = time.perf_counter()
        self._run(*timed)
        seconds = time.perf_counter() - began
        log = self._run(*counted, "-vv", "--dump=headers")
        return Measured(log.count("HTTP REQUEST"), sent, seconds)

    def _run(self, *arguments: str) -> str:
        rclone = str(Path(sys.executable).parent / "rclone")
        tuned = [f"--transfers={THREADS}", f"--checkers={THREADS}", "--fast-list", "--size-only"]
        done = subprocess.run(
            [rclone, "sync", *arguments, *tuned, f"--config={os.devnull}"],
            env=os.environ | self._remote(),
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stderr

    def _remote(self) -> dict[str, str]:
        return {
            "RCLONE_CONFIG_THERE_TYPE": "s3",
            "RCLONE_CONFIG_THERE_PROVIDER": "Rclone",
            "RCLONE_CONFIG_THERE_ENDPOINT": self.where.endpoint_url or "",
            "RCLONE_CONFIG_THERE_ACCESS_KEY_ID": self.where.access_key_id or "",
            "RCLONE_CONFIG_THERE_SECRET_ACCESS_KEY": self.where.secret_access_key or "",
        }
