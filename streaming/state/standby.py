"""What a replica can start from: the state, and what a secondary keeps ready of the input after it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from resources.control.store import ControlStore
from resources.vault.manifest import Manifest
from resources.vault.vault import SnapshotVault
from streaming.inbox import Inbox
from streaming.sampling import Sampler
from streaming.spec import ReplicaSpec
from streaming.state.follower import Follower, StartingPoint, Synced, restore
from streaming.state.prefetcher import Prefetcher


@dataclass
class Standby:
    """The switches `sync` and `receive`, each a thread while it is on.

    `start` is what a primary has read from the object store while it was deployed.
    """

    spec: ReplicaSpec
    vault: SnapshotVault
    store: ControlStore
    sampler: Sampler
    start: StartingPoint | None = None
    _follower: Follower | None = None
    _prefetcher: Prefetcher | None = None
    _shown: set[Path] = field(default_factory=set)
    _inbox: Inbox = field(init=False)

    def __post_init__(self) -> None:
        self._inbox = Inbox(self.spec.folder)

    @property
    def synced(self) -> Synced | None:
        """The newest state that is here, while `sync` is on."""
        return None if self._follower is None else self._follower.synced

    def state(self, give_up: Callable[[], bool]) -> tuple[Path, Manifest | None]:
        """The newest state that can be had soonest: synced before, or read from the object store."""
        synced = self.synced  # another one may be shown at any moment
        if synced is not None:
            return synced.checkpoint, synced.manifest
        start, self.start = self.start, None
        if start is None:
            start = restore(self.spec, self.store, self.vault, give_up=give_up)
            start.tell(self.sampler)
        return start.checkpoint, start.manifest

    def take_shown(self) -> set[Path]:
        """The checkpoints that were shown since the last time: they are the caller's to remove."""
        taken = self._shown.copy()
        self._shown -= taken
        return taken

    @property
    def received(self) -> bool:
        """Whether `receive` is on and the input of every epoch is here."""
        return self._prefetcher is not None and self._prefetcher.caught_up

    def turn_on(self, *, sync: bool, receive: bool) -> None:
        """Start what is wanted and not there."""
        if sync and self._follower is None:
            every = self.spec.stream.secondary.sync
            self._follower = Follower(
                self.spec,
                self.vault,
                self.store,
                self.sampler,
                every_seconds=every,
                on_shown=self._shown.add,
            )
            self._follower.start()
        if receive and self._prefetcher is None:
            newest = self.store.snapshots.newest(self.spec.stream.name)
            after = self.synced or newest  # whoever starts to process starts from there
            self._prefetcher = Prefetcher(
                self.spec, self.store, self._inbox, after_epoch=-1 if after is None else after.epoch
            )
            self._prefetcher.start()

    def turn_off(self, *, sync: bool, receive: bool) -> None:
        """Stop what is not wanted, without waiting for it; what is in the inbox stays."""
        if sync and self._follower is not None:
            self._follower.stop()
            self._follower = None
        if receive and self._prefetcher is not None:
            self._prefetcher.stop()
            self._prefetcher = None

    def forget_input(self, through_epoch: int) -> None:
        """Remove the input that the state covers by now."""
        if self._prefetcher is not None:
            self._prefetcher.prune(through_epoch)
        else:
            self._inbox.prune(through_epoch)
