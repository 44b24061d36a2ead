"""Following the primary: a thread that keeps the newest snapshot on the local disk, ready to start from.

Each snapshot gets a folder of its own: unchanged files are linked to the one before, the rest is
fetched and verified, and the folder is shown when it is complete. So a query may be held on one folder
while the next is made. The replica removes folders that were shown; this module never does.

A replica without a follower restores the newest snapshot that verifies when its query starts.
"""

import logging
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from holdfast.ft_policies import quantities
from holdfast.resources.clock import SYSTEM_CLOCK, Clock
from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.records import Slot, SnapshotRow, SnapshotState
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.retry import retry_transient
from holdfast.resources.vault.objects.manifest import Manifest, UnusableSnapshotError
from holdfast.resources.vault.records import NoUsableSnapshotError, Restored
from holdfast.resources.vault.restore import LinkSource
from holdfast.resources.vault.vault import SnapshotVault
from holdfast.streaming.background import RetryingThread, StoppedError
from holdfast.streaming.metrics import Sampler
from holdfast.streaming.spark.checkpoint import mark_empty_start
from holdfast.streaming.spec import ReplicaSpec
from holdfast.streaming.state.lost_state import close_question, require_start
from holdfast.streaming.state.shipper import IntervalOverrides

LOOK_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 10.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredState:
    """What a query starts from; without a manifest it starts at epoch 0, unless the checkpoint is marked."""

    checkpoint: Path
    manifest: Manifest | None
    seconds: float

    @property
    def epoch(self) -> int | None:
        """The last epoch that the snapshot covers."""
        return None if self.manifest is None else self.manifest.epoch

    def record(self, sampler: Sampler) -> None:
        """Record the seconds and bytes of the restore."""
        read_bytes = 0 if self.manifest is None else self.manifest.state_bytes
        sampler.record(SampleName.READ_SNAPSHOT_SECONDS, self.seconds, self.epoch)
        sampler.record(SampleName.READ_SNAPSHOT_BYTES, float(read_bytes), self.epoch)


def restore(
    spec: ReplicaSpec,
    store: ControlStore,
    vault: SnapshotVault,
    *,
    give_up: Callable[[], bool] = lambda: False,
) -> RestoredState:
    """Restore into a new folder; damaged snapshots are skipped and reported.

    Without a snapshot the stream starts at epoch 0, or with empty state after the gap that the operator has accepted;
    `PermanentError` if that is a question to the operator.
    """
    began, unusable = SYSTEM_CLOCK.monotonic(), frozenset[str]()
    checkpoint = spec.new_checkpoint()
    try:
        restored = retry_transient(
            lambda: vault.restore_newest(checkpoint, durable=False),
            what="restoring the newest snapshot",
            give_up=give_up,
        )
    except NoUsableSnapshotError as error:
        retry_transient(partial(_mark_damaged, spec, store, error), what="marking the snapshots")
        report_damaged(spec, store, "all snapshots", str(error))
        restored, unusable = None, frozenset(snapshot.id for snapshot in error.refused)
    seconds = SYSTEM_CLOCK.monotonic() - began
    if restored is None:
        start = partial(require_start, store, spec.stream.name, vault, refused=unusable)
        _prepare_start(spec, store, start, checkpoint, give_up)
        return RestoredState(checkpoint=checkpoint, manifest=None, seconds=seconds)
    for refused in restored.refused:
        report_damaged(spec, store, refused.id, refused.reason)
    _answer(spec, store, f"the snapshot {restored.manifest.id} was restored")
    log.info("restored snapshot %s in %s", restored.manifest.id, quantities.seconds(seconds))
    return RestoredState(checkpoint=checkpoint, manifest=restored.manifest, seconds=seconds)


def _prepare_start(
    spec: ReplicaSpec,
    store: ControlStore,
    find_start: Callable[[], int | None],
    checkpoint: Path,
    give_up: Callable[[], bool],
) -> None:
    """Let the checkpoint start without a snapshot, if it may."""
    after = retry_transient(
        find_start,
        what="comparing the catalogue with the object store",
        give_up=give_up,
    )
    if after is not None:
        mark_empty_start(checkpoint, after)
    begin = "at epoch 0" if after is None else f"with empty state after epoch {after}"
    _answer(spec, store, f"the stream starts {begin}")
    log.info("starting %s: no snapshot to restore", begin)


def _answer(spec: ReplicaSpec, store: ControlStore, answer: str) -> None:
    retry_transient(
        lambda: close_question(store, spec.stream.name, answer), what="closing the incident"
    )


def _mark_damaged(spec: ReplicaSpec, store: ControlStore, error: NoUsableSnapshotError) -> None:
    for refused in error.refused:
        store.snapshots.mark(spec.stream.name, refused.id, SnapshotState.DAMAGED, refused.reason)


def report_damaged(spec: ReplicaSpec, store: ControlStore, snapshot: str, reason: str) -> None:
    """Mark a snapshot that cannot be restored, and record it as an incident that is closed at once."""
    log.error("snapshot %s is damaged: %s", snapshot, reason)
    name = spec.stream.name

    def write() -> None:
        store.snapshots.mark(name, snapshot, SnapshotState.DAMAGED, reason)
        incident = store.incidents.open(
            stream=name,
            key=f"{name}/{snapshot}/damaged",
            kind=IncidentKind.SNAPSHOT_DAMAGED,
            detail={"snapshot": snapshot, "reason": reason},
        )
        store.incidents.close(
            incident.id, "snapshot skipped: an older one is restored, and more epochs are replayed"
        )

    retry_transient(write, what=f"reporting the damaged snapshot {snapshot}")


@dataclass(frozen=True, slots=True)
class LocalSnapshot:
    """A snapshot that is complete on the local disk, and how long the sync took."""

    manifest: Manifest
    checkpoint: Path
    seconds: float

    @property
    def epoch(self) -> int:
        """The last epoch that the snapshot covers."""
        return self.manifest.epoch


class SnapshotFollower(RetryingThread):
    """Requests a snapshot of the primary at least every `every_seconds`, and restores each newer one.

    The controller may override `every_seconds` at any time.
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
            failure="snapshot sync failed",
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
        self._requested_at = float("-inf")
        self._gone: set[str] = set()
        self._snapshot: LocalSnapshot | None = None
        self._showing = threading.Lock()

    @property
    def snapshot(self) -> LocalSnapshot | None:
        """The newest snapshot that is complete here; it does not change after `stop`."""
        return self._snapshot

    def stop(self) -> None:
        """Request the end; no snapshot is shown after this call."""
        with self._showing:
            super().stop()

    def follow(self) -> None:
        """Restore the newest snapshot if it is newer than the local one, and request another if it is old."""
        newest = self._store.snapshots.newest(self._spec.stream.name)
        self._request_if_old(newest)
        if newest is None or newest.epoch <= self._epoch:
            return
        for row in self._store.snapshots.of(self._spec.stream.name):
            if row.epoch <= self._epoch or (row.id not in self._gone and self._sync(row)):
                return

    @property
    def _epoch(self) -> int:
        return -1 if self._snapshot is None else self._snapshot.epoch

    def _every_seconds(self) -> float:
        override = self._overrides.now().sync_every
        return self._declared_seconds if override is None else override

    def _request_if_old(self, newest: SnapshotRow | None) -> None:
        """Request a snapshot, unless the primary has no new epoch or the last request is recent.

        A snapshot of the future is of unknown age: the control store's clock was set back since.
        """
        now, every_seconds = self._clock.monotonic(), self._every_seconds()
        if now - self._requested_at < every_seconds:
            return
        if newest is not None and 0.0 <= self._store.now() - newest.created_at < every_seconds:
            return
        for row in self._store.replicas.of(self._spec.stream.name):
            is_primary = row.slot is Slot.PRIMARY and row.id != self._spec.replica
            reached = -1 if newest is None else newest.epoch
            if is_primary and row.epoch is not None and row.epoch > reached:
                self._store.replicas.request_snapshot(row.id)
                self._requested_at = now

    def _sync(self, row: SnapshotRow) -> bool:
        """Restore one snapshot; `False` if it is unusable, and the next older one is to be tried."""
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
            manifest, folder, base=self._base, progress=self._on_progress, durable=False
        )

    def _on_progress(self, _done: int, _total: int) -> None:
        self._check_stopped()

    def _show(self, snapshot: LocalSnapshot, restored: Restored) -> None:
        with self._showing:
            if self._ended.is_set():  # the replica removes only folders that were shown
                shutil.rmtree(snapshot.checkpoint, ignore_errors=True)
                raise StoppedError
            self._on_shown(snapshot.checkpoint)
            self._snapshot = snapshot
        self._base = LinkSource(snapshot.checkpoint, snapshot.manifest)
        self._sampler.record(SampleName.SYNC_SECONDS, snapshot.seconds, snapshot.epoch)
        self._sampler.record(SampleName.SYNC_BYTES, float(restored.fetched_bytes), snapshot.epoch)
        self._sampler.record(SampleName.SYNC_REQUESTS, float(restored.requests + 1), snapshot.epoch)
        log.info(
            "synced snapshot %s: %s of %s fetched, %s",
            snapshot.manifest.id, quantities.size(restored.fetched_bytes), quantities.size(restored.bytes),
            quantities.seconds(snapshot.seconds),
        )  # fmt: skip

    def _skip(self, row: SnapshotRow, reason: str) -> None:
        """Report damage, unless retention has deleted the snapshot: then it leaves the catalogue soon."""
        if all(record.id != row.id for record in self._vault.list()):
            log.info("snapshot %s skipped: retention deleted it before it was synced", row.id)
            self._gone.add(row.id)
            return
        report_damaged(self._spec, self._store, row.id, reason)

    def _new_folder(self, epoch: int) -> Path:
        number = 0
        while (folder := self._spec.checkpoints / f"{epoch:012d}-{number}").exists():
            number += 1
        return folder
