"""What a replica can start from: the state and, in a secondary, the input after it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.ft_policies.tiers import Switches
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.vault.objects.manifest import Manifest
from holdfast.resources.vault.vault import SnapshotVault
from holdfast.streaming.inbox import Inbox
from holdfast.streaming.metrics import Sampler
from holdfast.streaming.spec import ReplicaSpec
from holdfast.streaming.state.follower import (
    LocalSnapshot,
    RestoredState,
    SnapshotFollower,
    restore,
)
from holdfast.streaming.state.prefetcher import Prefetcher


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyState:
    """What a secondary has ready: the newest snapshot while it syncs, and whether all input after it is there."""

    snapshot: LocalSnapshot | None
    has_all_input: bool


@dataclass
class Standby:
    """The switches `sync` and `receive`, each a thread while it is on.

    `start` is the state that a primary read from the object store while it was deployed.
    """

    spec: ReplicaSpec
    vault: SnapshotVault
    store: ControlStore
    sampler: Sampler
    start: RestoredState | None = None
    _follower: SnapshotFollower | None = None
    _prefetcher: Prefetcher | None = None
    _shown: set[Path] = field(default_factory=set)
    _inbox: Inbox = field(init=False)

    def __post_init__(self) -> None:
        self._inbox = Inbox(self.spec.folder)

    def reconcile(self, desired: Switches) -> ReadyState:
        """Start what is desired and does not run yet; returns what is ready now.

        What is no longer desired stays until `release`: a query may have to start from it.
        """
        if desired.sync and self._follower is None:
            self._follower = self._new_follower()
            self._follower.start()
        if _receives(desired) and self._prefetcher is None:
            self._prefetcher = self._new_prefetcher()
            self._prefetcher.start()
        return self.observed

    def release(self, desired: Switches) -> None:
        """Stop what is not desired, without waiting for it; the content of the inbox stays."""
        if not desired.sync and self._follower is not None:
            self._follower.stop()
            self._follower = None
        if not _receives(desired) and self._prefetcher is not None:
            self._prefetcher.stop()
            self._prefetcher = None

    @property
    def observed(self) -> ReadyState:
        """What is ready at this moment."""
        caught_up = self._prefetcher is not None and self._prefetcher.caught_up
        return ReadyState(snapshot=self.snapshot, has_all_input=caught_up)

    @property
    def snapshot(self) -> LocalSnapshot | None:
        """The newest snapshot that is here, while `sync` is on."""
        return None if self._follower is None else self._follower.snapshot

    def newest_state(self, give_up: Callable[[], bool]) -> tuple[Path, Manifest | None]:
        """The newest state that is available soonest: synced before, or read from the object store."""
        snapshot = self.snapshot  # read once: the follower may replace it at any moment
        if snapshot is not None:
            return snapshot.checkpoint, snapshot.manifest
        start, self.start = self.start, None
        if start is None:
            start = restore(self.spec, self.store, self.vault, give_up=give_up)
            start.record(self.sampler)
        return start.checkpoint, start.manifest

    def take_shown(self) -> set[Path]:
        """Hand over the checkpoints that were shown since the last call: the caller removes them."""
        taken = self._shown.copy()
        self._shown -= taken
        return taken

    def forget_input(self, through_epoch: int) -> None:
        """Remove the input that the state covers by now."""
        if self._prefetcher is not None:
            self._prefetcher.prune(through_epoch)
        else:
            self._inbox.prune(through_epoch)

    def _new_follower(self) -> SnapshotFollower:
        return SnapshotFollower(
            self.spec,
            self.vault,
            self.store,
            self.sampler,
            every_seconds=self.spec.stream.secondary.sync,
            on_shown=self._shown.add,
        )

    def _new_prefetcher(self) -> Prefetcher:
        """Make a prefetcher that begins after the state that a query would start from."""
        newest = self.store.snapshots.newest(self.spec.stream.name)
        after = self.snapshot or newest
        after_epoch = -1 if after is None else after.epoch
        return Prefetcher(self.spec, self.store, self._inbox, after_epoch=after_epoch)


def _receives(desired: Switches) -> bool:
    """Whether to prefetch: a processing query reads its own input, unless it also syncs, and is or will be held."""
    return desired.receive and (desired.sync or not desired.process)
