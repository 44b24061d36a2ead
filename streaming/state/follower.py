"""Following the primary: a thread that keeps the newest snapshot on the local disk, ready to go on from.

Each one gets a folder of its own, beside the one before: what did not change is linked, the rest is
fetched and verified, and the folder is shown when it is whole. So a query may be held on one folder
while the next is made. Folders that were shown are removed by the replica, never here.

A replica that follows nothing restores the newest snapshot that verifies when its query starts.
"""

import logging
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from holdfast.resources.clock import SYSTEM_CLOCK, Clock
from holdfast.resources.control_store.records import Slot, SnapshotRow, SnapshotState
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.retry import retry_transient
from holdfast.resources.vault.manifest import Manifest, UnusableSnapshotError
from holdfast.resources.vault.records import Restored
from holdfast.resources.vault.restore import LinkSource
from holdfast.resources.vault.vault import SnapshotVault
from holdfast.streaming.background import RetryingThread, StoppedError
from holdfast.streaming.metrics import Sampler
from holdfast.streaming.spec import ReplicaSpec
from holdfast.streaming.state.shipper import IntervalOverrides

LOOK_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 10.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredState:
    """What a query starts from; without a manifest it starts at epoch 0."""

    checkpoint: Path
    manifest: Manifest | None
    seconds: float

    @property
    def epoch(self) -> int | None:
        """The last epoch that the snapshot covers."""
        return None if self.manifest is None else self.manifest.epoch

    def record(self, sampler: Sampler) -> None:
        """Record how long it took, and for how much."""
        read_bytes = 0 if self.manifest is None else self.manifest.state_bytes
        sampler.once(SampleName.READ_SNAPSHOT_SECONDS, self.seconds, self.epoch)
        sampler.once(SampleName.READ_SNAPSHOT_BYTES, float(read_bytes), self.epoch)


def restore(
    spec: ReplicaSpec,
    store: ControlStore,
    vault: SnapshotVault,
    *,
    give_up: Callable[[], bool] = lambda: False,
) -> RestoredState:
    """Restore into a new folder; damaged snapshots are skipped and reported."""
    began = SYSTEM_CLOCK.monotonic()
    checkpoint = spec.new_checkpoint()
    try:
        found = retry_transient(
            lambda: vault.restore_newest(checkpoint, durable=False),
            what="restoring the newest snapshot",
            give_up=give_up,
        )
    except UnusableSnapshotError as error:
        report_damaged(
            spec, store, "all snapshots", f"everything is replayed from epoch 0: {error}"
        )
        found = None
    seconds = SYSTEM_CLOCK.monotonic() - began
    if found is None:
        log.info("no snapshot to start from: starting at epoch 0")
        return RestoredState(checkpoint=checkpoint, manifest=None, seconds=seconds)
    for refused in found.refused:
        report_damaged(spec, store, refused.id, refused.reason)
    log.info("restored %s in %.2f s", found.manifest.id, seconds)
    return RestoredState(checkpoint=checkpoint, manifest=found.manifest, seconds=seconds)


def report_damaged(spec: ReplicaSpec, store: ControlStore, snapshot: str, reason: str) -> None:
    """Mark a snapshot that cannot be restored, and leave a closed incident for the record."""
    log.error("snapshot %s is damaged: %s", snapshot, reason)
    name = spec.stream.name

    def write() -> None:
        store.snapshots.mark(name, snapshot, SnapshotState.DAMAGED, reason)
        incident = store.incidents.open(
            stream=name,
            key=f"{name}/{snapshot}/damaged",
            kind="snapshot_damaged",
            detail={"snapshot": snapshot, "reason": reason},
        )
        store.incidents.close(incident.id, "passed over: more epochs are replayed, none is lost")

    retry_transient(write, what=f"reporting the damaged snapshot {snapshot}")


@dataclass(frozen=True, slots=True)
class LocalSnapshot:
    """A snapshot that is complete on the local disk, and how long it took to get there."""

    manifest: Manifest
    checkpoint: Path
    seconds: float

    @property
    def epoch(self) -> int:
        """The last epoch that it covers."""
        return self.manifest.epoch


class SnapshotFollower(RetryingThread):
    """Has the primary ship at least every `every_seconds`, and restores what is newer.

    The controller may want another interval than `every_seconds`, and change it at any time.
    """

    def __init__(
        self,
        spec: ReplicaSpec,
        vault: SnapshotVault,
        store: ControlStore,
        sampler: Sampler,
        *,
        every_seconds: float,
        on_shown: Callable[[Path], None] = lambda _: None,
        look_seconds: float = LOOK_SECONDS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(
            "follower",
            self.follow,
            look_seconds=look_seconds,
            longest_pause_seconds=LONGEST_PAUSE_SECONDS,
            failure="not synced",
            logger=log,
        )
        self._spec = spec
        self._vault = vault
        self._store = store
        self._sampler = sampler
        self._declared_seconds = every_seconds
        self._overrides = IntervalOverrides(store, spec.stream.name, clock)
        self._on_shown = on_shown
        self._base: LinkSource | None = None
        self._clock = clock
        self._asked_at = float("-inf")
        self._gone: set[str] = set()
        self._snapshot: LocalSnapshot | None = None
        self._showing = threading.Lock()

    @property
    def snapshot(self) -> LocalSnapshot | None:
        """The newest snapshot that is complete here; it stays the same once this was stopped."""
        return self._snapshot

    def stop(self) -> None:
        """Ask it to end; from here on it shows nothing new."""
        with self._showing:
            super().stop()

    def follow(self) -> None:
        """Restore the newest snapshot if it is newer than ours, and ask for one if it is old."""
        newest = self._store.snapshots.newest(self._spec.stream.name)
        self._ask_if_old(newest)
        if newest is None or newest.epoch <= self._epoch:
            return
        for row in self._store.snapshots.of(self._spec.stream.name):
            if row.epoch <= self._epoch or (row.id not in self._gone and self._sync(row)):
                return

    @property
    def _epoch(self) -> int:
        return -1 if self._snapshot is None else self._snapshot.epoch

    def _every_seconds(self) -> float:
        wanted = self._overrides.now().sync_every
        return self._declared_seconds if wanted is None else wanted

    def _ask_if_old(self, newest: SnapshotRow | None) -> None:
        """A primary that has nothing new, or was asked a moment ago, is left alone."""
        now, every_seconds = self._clock.monotonic(), self._every_seconds()
        if now - self._asked_at < every_seconds:
            return
        if newest is not None and self._store.now() - newest.created_at < every_seconds:
            return
        for row in self._store.replicas.of(self._spec.stream.name):
            is_primary = row.slot is Slot.PRIMARY and row.id != self._spec.replica
            reached = -1 if newest is None else newest.epoch
            if is_primary and row.epoch is not None and row.epoch > reached:
                self._store.replicas.request_snapshot(row.id)
                self._asked_at = now

    def _sync(self, row: SnapshotRow) -> bool:
        """Restore one snapshot; `False` if it cannot be used, so that the next older one may be."""
        began = self._clock.monotonic()
        folder = self._new_folder(row.epoch)
        try:
            manifest = self._vault.manifest(row.id)
            restored = self._restore(manifest, folder)
        except UnusableSnapshotError as error:
            self._skip(row, str(error))
            return False
        self._show(LocalSnapshot(manifest, folder, self._clock.monotonic() - began), restored)
        return True

    def _restore(self, manifest: Manifest, folder: Path) -> Restored:
        return self._vault.restore(
            manifest, folder, base=self._base, progress=self._go_on, durable=False
        )

    def _go_on(self, _done: int, _total: int) -> None:
        self._check_stopped()

    def _show(self, snapshot: LocalSnapshot, restored: Restored) -> None:
        with self._showing:
            if self._ended.is_set():  # what was not shown, the replica would never remove
                shutil.rmtree(snapshot.checkpoint, ignore_errors=True)
                raise StoppedError
            self._on_shown(snapshot.checkpoint)
            self._snapshot = snapshot
        self._base = LinkSource(snapshot.checkpoint, snapshot.manifest)
        self._sampler.once(SampleName.SYNC_SECONDS, snapshot.seconds, snapshot.epoch)
        self._sampler.once(SampleName.SYNC_BYTES, float(restored.fetched_bytes), snapshot.epoch)
        self._sampler.once(SampleName.SYNC_REQUESTS, float(restored.requests + 1), snapshot.epoch)
        log.info(
            "synced %s: %s of %s bytes fetched, %.2f s",
            snapshot.manifest.id, restored.fetched_bytes, restored.bytes, snapshot.seconds,
        )  # fmt: skip

    def _skip(self, row: SnapshotRow, reason: str) -> None:
        """A snapshot that retention dropped meanwhile is no damage; it leaves the catalogue soon."""
        if all(record.id != row.id for record in self._vault.list()):
            log.info("snapshot %s was dropped before it could be followed", row.id)
            self._gone.add(row.id)
            return
        report_damaged(self._spec, self._store, row.id, reason)

    def _new_folder(self, epoch: int) -> Path:
        number = 0
        while (folder := self._spec.checkpoints / f"{epoch:012d}-{number}").exists():
            number += 1
        return folder
