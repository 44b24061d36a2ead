"""Giving a query the newest snapshot that verifies."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from resources.clock import SYSTEM_CLOCK
from resources.control.records import SnapshotState
from resources.control.store import ControlStore
from resources.retry import retry_transient
from resources.vault.manifest import Manifest, UnusableSnapshotError
from resources.vault.vault import SnapshotVault
from streaming.sampling import Sampler
from streaming.spec import ReplicaSpec

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartingPoint:
    """What a query starts from; without a manifest it starts at epoch 0."""

    checkpoint: Path
    manifest: Manifest | None
    seconds: float

    @property
    def epoch(self) -> int | None:
        """The last epoch that the snapshot covers."""
        return None if self.manifest is None else self.manifest.epoch

    def tell(self, sampler: Sampler) -> None:
        """Note how long it took, and for how much."""
        read_bytes = 0 if self.manifest is None else self.manifest.state_bytes
        sampler.once("t_read_snapshot_seconds", self.seconds, self.epoch)
        sampler.once("read_snapshot_bytes", float(read_bytes), self.epoch)


def restore(
    spec: ReplicaSpec,
    store: ControlStore,
    vault: SnapshotVault,
    *,
    give_up: Callable[[], bool] = lambda: False,
) -> StartingPoint:
    """Restore into a new folder; damaged snapshots are passed over, and said."""
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
        return StartingPoint(checkpoint=checkpoint, manifest=None, seconds=seconds)
    for refused in found.refused:
        report_damaged(spec, store, refused.id, refused.reason)
    log.info("restored %s in %.2f s", found.manifest.id, seconds)
    return StartingPoint(checkpoint=checkpoint, manifest=found.manifest, seconds=seconds)


def report_damaged(spec: ReplicaSpec, store: ControlStore, snapshot: str, reason: str) -> None:
    """Mark a snapshot that cannot be restored, and leave an incident for people to see."""
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
