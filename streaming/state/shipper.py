"""Shipping snapshots from a replica to the object store, beside the query and never in its way.

One thread, one snapshot at a time. If the object store is unavailable, snapshots get older and nothing
else happens; each retry cuts the checkpoint again, so what is shipped in the end is the newest.

The controller may override how often snapshots are shipped and synced.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.ft_policies import quantities
from holdfast.ft_policies.errors import TransientError
from holdfast.ft_policies.snapshots import CheckpointPolicy, Ship
from holdfast.resources.clock import SYSTEM_CLOCK, Clock
from holdfast.resources.control_store.records import Intervals, SnapshotState
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.vault.checkpoint.files import cut
from holdfast.resources.vault.objects.intents import LostPacksError
from holdfast.resources.vault.objects.manifest import Manifest
from holdfast.resources.vault.records import Shipped, build_snapshot_row
from holdfast.resources.vault.vault import SnapshotVault
from holdfast.streaming.background import RetryingThread
from holdfast.streaming.lease import WriteToken
from holdfast.streaming.spark.checkpoint import last_committed
from holdfast.streaming.spec import ReplicaSpec

READ_SECONDS = 3.0
LOOK_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0

log = logging.getLogger(__name__)


class IntervalOverrides:
    """The controller's overrides of the declared intervals, read every few seconds; for one thread."""

    def __init__(self, store: ControlStore, stream: str, clock: Clock) -> None:
        self._store = store
        self._stream = stream
        self._clock = clock
        self._read_at = float("-inf")
        self._overrides = Intervals()

    def now(self) -> Intervals:
        """The intervals as last read, also while the control store is unavailable."""
        now = self._clock.monotonic()
        if now - self._read_at >= READ_SECONDS:
            self._read_at = now
            try:
                self._overrides = self._store.streams.intervals(self._stream)
            except TransientError as error:
                log.warning("interval overrides not read, the last ones stay in force: %s", error)
        return self._overrides


@dataclass(slots=True)
class _Reached:
    """The last snapshot that was shipped or restored."""

    manifest: Manifest | None
    at: float

    @property
    def epoch(self) -> int:
        return -1 if self.manifest is None else self.manifest.epoch


class Shipper(RetryingThread):
    """Ships when the checkpoint policy says so, on request, and at the end of the replica."""

    def __init__(
        self,
        spec: ReplicaSpec,
        vault: SnapshotVault,
        store: ControlStore,
        *,
        checkpoint: Path,
        conf: Mapping[str, str],
        parent: Manifest | None,
        lease: WriteToken,
        requested: Callable[[], int],
        on_served: Callable[[int], None],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(
            "shipper",
            self.ship_if_due,
            look_seconds=LOOK_SECONDS,
            longest_pause_seconds=LONGEST_PAUSE_SECONDS,
            failure="snapshot not shipped",
            logger=log,
        )
        self._spec = spec
        self._vault = vault
        self._store = store
        self._checkpoint = checkpoint
        self._conf = dict(conf)
        self._lease = lease
        self._requested = requested
        self._on_served = on_served
        self._clock = clock
        self._declared = spec.stream.checkpoint.policy()
        self._overrides = IntervalOverrides(store, spec.stream.name, clock)
        self._reached = _Reached(parent, clock.monotonic())
        self._served = requested()

    def ship_if_due(self) -> None:
        """Ship if the policy says so or a snapshot was requested."""
        requested = self._requested()
        epoch = last_committed(self._checkpoint)
        if epoch is not None and (requested > self._served or self._is_due(epoch)):
            self._ship(epoch)
        if requested > self._served and epoch is not None:
            self._served = requested
            self._on_served(requested)

    def finish(self) -> None:
        """Ship a last snapshot; one attempt, so that an unavailable store does not delay the end of the replica."""
        self.stop()
        self.join()
        epoch = last_committed(self._checkpoint)
        if epoch is None:
            return
        try:
            self._ship(epoch)
        except Exception:
            log.exception("the last snapshot was not shipped")

    def _attempt(self) -> bool:
        """Log the age of the last snapshot after a failure: that is all that a failure costs."""
        succeeded = super()._attempt()
        if not succeeded:
            age = self._clock.monotonic() - self._reached.at
            log.warning("the last snapshot is %s old", quantities.seconds(age))
        return succeeded

    def _is_due(self, epoch: int) -> bool:
        decision = self._policy().decide(
            epochs_since=epoch - self._reached.epoch,
            seconds_since=self._clock.monotonic() - self._reached.at,
            bytes_since=self._new_bytes(epoch),
        )
        return isinstance(decision, Ship)

    def _policy(self) -> CheckpointPolicy:
        """The declared policy, with the controller's interval if there is one."""
        seconds = self._overrides.now().snapshot_every
        return self._declared if seconds is None else replace(self._declared, seconds=seconds)

    def _new_bytes(self, epoch: int) -> int:
        if self._declared.bytes is None or epoch == self._reached.epoch:
            return 0
        manifest = self._reached.manifest
        stored = set() if manifest is None else manifest.paths
        files = cut(self._checkpoint, epoch, stored=stored)
        return sum(file.size_bytes for file in files if file.path not in stored)

    def _ship(self, epoch: int) -> None:
        if epoch <= self._reached.epoch:
            return
        try:
            shipped = self._vault.ship(
                self._checkpoint,
                epoch,
                token=self._lease.token,
                replica=self._spec.replica,
                parent=self._find_parent(),
                conf=self._conf,
                created_at=self._store.now(),
                scratch=self._spec.folder / "scratch",
                history=self._spec.history,
            )
        except LostPacksError:
            self._reached = replace(
                self._reached, manifest=None
            )  # the next one is complete by itself
            raise
        self._reached = _Reached(shipped.manifest, self._clock.monotonic())
        self._record(shipped)

    def _find_parent(self) -> Manifest | None:
        """The snapshot that the next one may build on; `None` if the next one has to be complete.

        The packs of a parent must be kept. Those of this replica's last snapshot are; those of the one that a
        secondary started from may be deleted by the time of its promotion, because it ships nothing until
        then. A damaged snapshot is no parent.
        """
        parent = self._reached.manifest
        if parent is None or self._is_damaged(parent):
            return None
        if parent.replica == self._spec.replica:
            return parent
        return parent if any(record.id == parent.id for record in self._vault.list()) else None

    def _is_damaged(self, parent: Manifest) -> bool:
        row = self._store.snapshots.get(self._spec.stream.name, parent.id)
        return row is not None and row.state is SnapshotState.DAMAGED

    def _record(self, shipped: Shipped) -> None:
        manifest = shipped.manifest
        row = build_snapshot_row(
            self._spec.stream.name,
            manifest,
            self._vault.manifest_key(manifest.id),
            new_bytes=shipped.new_bytes,
            requests=shipped.requests,
            seconds=shipped.seconds,
        )
        try:
            self._store.snapshots.record(row)
        except TransientError as error:
            log.warning("snapshot %s not recorded in the catalogue: %s", manifest.id, error)
        log.info(
            "shipped snapshot %s: %s new, %s requests, %s",
            manifest.id, quantities.size(shipped.new_bytes), shipped.requests,
            quantities.seconds(shipped.seconds),
        )  # fmt: skip
