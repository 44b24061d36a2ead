"""Following the primary: a thread that keeps the newest snapshot on the local disk, ready to go on from.

Each one gets a folder of its own, beside the one before: what did not change is linked, the rest is
fetched and verified, and the folder is shown when it is whole. So a query may be held on one folder
while the next is made. Folders that were shown are removed by the replica, never here.
"""

import logging
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from resources.clock import SYSTEM_CLOCK, Clock
from resources.control.records import Slot, SnapshotRow
from resources.control.store import ControlStore
from resources.vault.manifest import Manifest, UnusableSnapshotError
from resources.vault.records import Restored
from resources.vault.restore import LinkSource
from resources.vault.vault import SnapshotVault
from streaming.pacing import WantedIntervals
from streaming.restoring import report_damaged
from streaming.sampling import Sampler
from streaming.spec import ReplicaSpec
from streaming.trying import StoppedError, TryingThread

LOOK_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 10.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Synced:
    """A snapshot that is complete on the local disk, and how long it took to get there."""

    manifest: Manifest
    checkpoint: Path
    seconds: float

    @property
    def epoch(self) -> int:
        """The last epoch that it covers."""
        return self.manifest.epoch


class Follower(TryingThread):
    """Has the primary ship at least every `every_seconds`, and restores whatever is newer.

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
        self._wanted = WantedIntervals(store, spec.stream.name, clock)
        self._on_shown = on_shown
        self._base: LinkSource | None = None
        self._clock = clock
        self._asked_at = float("-inf")
        self._gone: set[str] = set()
        self._synced: Synced | None = None
        self._showing = threading.Lock()

    @property
    def synced(self) -> Synced | None:
        """The newest snapshot that is complete here; it stays the same once this was stopped."""
        return self._synced

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
        return -1 if self._synced is None else self._synced.epoch

    def _every_seconds(self) -> float:
        wanted = self._wanted.now().sync_every
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
            self._pass_over(row, str(error))
            return False
        self._show(Synced(manifest, folder, self._clock.monotonic() - began), restored)
        return True

    def _restore(self, manifest: Manifest, folder: Path) -> Restored:
        return self._vault.restore(
            manifest, folder, base=self._base, progress=self._go_on, durable=False
        )

    def _go_on(self, _done: int, _total: int) -> None:
        self._heed_stop()

    def _show(self, synced: Synced, restored: Restored) -> None:
        with self._showing:
            if self._ended.is_set():  # nobody would ever remove what nobody was shown
                shutil.rmtree(synced.checkpoint, ignore_errors=True)
                raise StoppedError
            self._on_shown(synced.checkpoint)
            self._synced = synced
        self._base = LinkSource(synced.checkpoint, synced.manifest)
        self._sampler.once("sync_seconds", synced.seconds, synced.epoch)
        self._sampler.once("sync_bytes", float(restored.fetched_bytes), synced.epoch)
        self._sampler.once("sync_requests", float(restored.requests + 1), synced.epoch)
        log.info(
            "synced %s: %s of %s bytes fetched, %.2f s",
            synced.manifest.id, restored.fetched_bytes, restored.bytes, synced.seconds,
        )  # fmt: skip

    def _pass_over(self, row: SnapshotRow, reason: str) -> None:
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
