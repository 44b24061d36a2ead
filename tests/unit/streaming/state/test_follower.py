"""A secondary's state follows the primary's snapshots, whatever happens to either of them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.ft_policies.tiers import PRIMARY
from holdfast.resources.control_store.records import EndedBy, ReplicaState, Slot, SnapshotState
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.vault.objects.manifest import Manifest
from holdfast.resources.vault.vault import SnapshotVault
from holdfast.streaming.metrics import Sampler
from holdfast.streaming.spark.checkpoint import read_empty_start
from holdfast.streaming.spec import ReplicaSpec
from holdfast.streaming.state.follower import LocalSnapshot, SnapshotFollower, restore
from tests.builders.control_rows import a_proposal, a_snapshot, an_entry, register
from tests.builders.replicas import a_spec
from tests.builders.vaults import ShippedStream, a_stream, tree
from tests.fakes.clocks import SteppedClock, shift_clock
from tests.waiting import wait_until

LONG = 1000.0


@dataclass
class Followed:
    """A primary that ships into a vault and a catalogue, and the follower of its secondary."""

    store: ControlStore
    stream: ShippedStream
    spec: ReplicaSpec
    clock: SteppedClock = field(default_factory=SteppedClock)

    def ship(self, epochs: int = 1) -> Manifest:
        manifest = self.stream.ship(epochs).manifest
        row = a_snapshot(manifest.id, manifest.epoch, created_at=self.store.now())
        self.store.snapshots.record(row)
        return manifest

    def primary_at(self, epoch: int | None, replica: str = "r1") -> None:
        register(self.store, replica)
        self.store.replicas.heartbeat(
            replica,
            state=ReplicaState.RUNNING,
            observed=PRIMARY,
            observed_generation=1,
            snapshot_served=0,
            epoch=epoch,
        )

    def asked(self, replica: str = "r1") -> int:
        row = self.store.replicas.get(replica)
        assert row is not None
        return row.snapshot_requested

    def follower(
        self, *, every_seconds: float = LONG, vault: SnapshotVault | None = None
    ) -> SnapshotFollower:
        return SnapshotFollower(
            self.spec,
            vault or self.stream.vault,
            self.store,
            Sampler(self.store, "words", self.spec.replica),
            every_seconds=every_seconds,
            look_seconds=0.01,
            clock=self.clock,
        )

    def is_at(self, synced: LocalSnapshot | None, manifest: Manifest) -> bool:
        return (
            synced is not None
            and synced.manifest.id == manifest.id
            and tree(synced.checkpoint) == self.stream.contents[manifest.id]
        )


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[Followed]:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as store:
        stream = a_stream(tmp_path / "primary", snapshot_every=1000, delta_bytes=2000)
        yield Followed(store, stream, a_spec(tmp_path, store))


@contextmanager
def running(follower: SnapshotFollower) -> Iterator[SnapshotFollower]:
    follower.start()
    try:
        yield follower
    finally:
        follower.stop()
        follower.join(5.0)
        assert not follower.is_alive()


def test_it_follows_into_a_new_folder_each_time_and_fetches_what_is_new(followed: Followed) -> None:
    follower = followed.follower()
    old = followed.ship(10)
    follower.follow()
    first = follower.snapshot
    assert followed.is_at(first, old)
    new = followed.ship(2)
    follower.follow()
    assert followed.is_at(follower.snapshot, new)
    assert first is not None
    assert follower.snapshot is not None
    home = followed.spec.folder / "checkpoints"
    assert [first.checkpoint, follower.snapshot.checkpoint] == [
        home / "000000000009-0",
        home / "000000000011-0",
    ]
    assert tree(first.checkpoint) == followed.stream.contents[old.id]
    latest = followed.store.samples.latest("words")
    assert latest[SampleName.SYNC_BYTES].value < old.state_bytes / 3
    assert latest[SampleName.SYNC_SECONDS].epoch == 11


def test_nothing_newer_is_nothing_to_do(followed: Followed) -> None:
    follower = followed.follower()
    follower.follow()
    assert follower.snapshot is None
    followed.ship()
    follower.follow()
    before, requests = follower.snapshot, followed.stream.store.requests
    follower.follow()
    assert follower.snapshot is before
    assert followed.stream.store.requests == requests


def test_a_primary_that_went_on_is_asked_once_in_a_while(followed: Followed) -> None:
    follower = followed.follower(every_seconds=5.0)
    follower.follow()
    followed.primary_at(None)
    follower.follow()
    assert followed.asked() == 0
    followed.primary_at(3)
    follower.follow()
    follower.follow()
    assert followed.asked() == 1
    followed.clock.sleep(5.0)
    follower.follow()
    assert followed.asked() == 2


def test_the_controller_may_want_it_more_seldom_or_more_often(followed: Followed) -> None:
    followed.store.streams.declare("words", {}, "passive_standby_hot")
    follower = followed.follower(every_seconds=5.0)
    followed.primary_at(3)
    follower.follow()
    followed.store.streams.set_intervals("words", snapshot_every=None, sync_every=20.0)
    followed.clock.step(19.0)
    follower.follow()
    assert followed.asked() == 1
    followed.clock.step(1.0)
    follower.follow()
    assert followed.asked() == 2
    followed.store.streams.set_intervals("words", snapshot_every=None, sync_every=None)
    followed.clock.step(5.0)
    follower.follow()
    assert followed.asked() == 3


def test_a_fresh_snapshot_and_an_idle_primary_need_no_asking(followed: Followed) -> None:
    manifest = followed.ship(4)
    followed.primary_at(manifest.epoch + 1)
    followed.follower(every_seconds=LONG).follow()
    assert followed.asked() == 0
    followed.primary_at(manifest.epoch)
    followed.follower(every_seconds=0.0).follow()
    assert followed.asked() == 0
    followed.primary_at(manifest.epoch + 1)
    followed.follower(every_seconds=0.0).follow()
    assert followed.asked() == 1


@pytest.mark.parametrize(("set_back_by", "requests"), [(0.0, 0), (3600.0, 1)])
def test_a_snapshot_of_the_future_is_not_fresh(
    followed: Followed, set_back_by: float, requests: int
) -> None:
    """The control store's clock was set back since it was shipped."""
    manifest = followed.ship(4)
    shift_clock(followed.store, -set_back_by)
    followed.primary_at(manifest.epoch + 1)
    followed.follower(every_seconds=LONG).follow()
    assert followed.asked() == requests


def test_only_the_live_primary_is_asked(followed: Followed) -> None:
    follower = followed.follower(every_seconds=0.0)
    register(followed.store, followed.spec.replica, slot=Slot.SECONDARY)
    followed.primary_at(3, "r1")
    follower.follow()
    followed.store.replicas.end("r1", ReplicaState.DEAD, "killed", by=EndedBy.REPLICA)
    follower.follow()
    followed.primary_at(3, "r3")
    follower.follow()
    asked = [followed.asked(replica) for replica in ("r1", "r3", followed.spec.replica)]
    assert asked == [1, 1, 0]


def test_a_new_primary_s_snapshots_are_followed_too(followed: Followed) -> None:
    follower = followed.follower()
    followed.ship(5)
    follower.follow()
    followed.stream.replica, followed.stream.parent = "r3", None
    manifest = followed.ship(1)
    follower.follow()
    assert manifest.replica == "r3"
    assert followed.is_at(follower.snapshot, manifest)


def test_a_damaged_snapshot_is_passed_over_for_the_next_older_one(followed: Followed) -> None:
    follower = followed.follower()
    followed.ship(5)
    good, bad = followed.ship(1), followed.ship(1)
    followed.stream.store.damage(followed.stream.pack_of(bad, f"commits/{bad.epoch}"))
    follower.follow()
    assert followed.is_at(follower.snapshot, good)
    states = {
        row.id: row.state for row in followed.store.snapshots.of("words", available_only=False)
    }
    assert states[bad.id] is SnapshotState.DAMAGED
    (incident,) = followed.store.incidents.of("words", open_only=False)
    assert incident.kind == "snapshot_damaged"
    assert incident.key == f"words/{bad.id}/damaged"
    assert followed.store.snapshots.newest("words") is not None


def test_a_dropped_snapshot_is_no_incident_and_is_not_asked_for_again(followed: Followed) -> None:
    follower = followed.follower()
    kept, dropped = followed.ship(2), followed.ship(1)
    followed.stream.store.delete([followed.stream.vault.manifest_key(dropped.id)])
    follower.follow()
    assert followed.is_at(follower.snapshot, kept)
    requests = followed.stream.store.requests
    follower.follow()
    assert followed.stream.store.requests == requests
    assert followed.store.incidents.of("words", open_only=False) == []


def test_a_store_that_is_away_is_waited_for(followed: Followed) -> None:
    manifest = followed.ship(3)
    away = [TransientError("the object store is away")]
    followed.stream.store.plan_failures([*away, None, *away])
    with running(followed.follower()) as follower:
        wait_until(lambda: follower.snapshot is not None)
    assert followed.is_at(follower.snapshot, manifest)
    assert followed.store.incidents.of("words", open_only=False) == []
    assert followed.stream.store.failures == []


def test_it_stops_in_the_middle_of_a_restore_and_shows_nothing(followed: Followed) -> None:
    followed.ship(3)
    stopping: list[Callable[[], None]] = []

    class StoppedMeanwhile(SnapshotVault):
        def manifest(self, snapshot_id: str) -> Manifest:
            manifest = super().manifest(snapshot_id)
            stopping[0]()
            return manifest

    follower = followed.follower(vault=StoppedMeanwhile(followed.stream.store, "words"))
    stopping.append(follower.stop)
    follower.start()
    follower.join(5.0)
    assert not follower.is_alive()
    assert follower.snapshot is None
    assert list((followed.spec.folder / "checkpoints").iterdir()) == []


def test_a_start_without_any_snapshot_is_refused_if_the_catalogue_has_one(
    followed: Followed,
) -> None:
    shipped = followed.ship(5)
    followed.stream.store.objects.clear()
    with pytest.raises(PermanentError, match="has no snapshot of words") as refused:
        restore(followed.spec, followed.store, followed.stream.vault)
    assert "--repair mark_snapshots" in refused.value.hint
    (incident,) = followed.store.incidents.of("words")  # it stays open: a question
    assert (incident.kind, shipped.id in incident.detail["reason"]) == ("snapshots_lost", True)
    followed.store.snapshots.mark("words", shipped.id, SnapshotState.DROPPED, "lost")
    state = restore(followed.spec, followed.store, followed.stream.vault)
    assert (state.manifest, read_empty_start(state.checkpoint)) == (None, None)
    assert followed.store.incidents.of("words") == []


def pruned(followed: Followed, *, before: int) -> None:
    """Ten epochs of 10 rows, of which the oldest are pruned."""
    for epoch in range(10):
        followed.store.epochs.propose(replace(a_proposal(epoch, stream="words"), rows=10))
        followed.store.ledger.commit(an_entry(epoch, stream="words"), history=0)
    followed.store.retention.prune_epochs("words", before=before)


@pytest.mark.parametrize("damage", ["deleted", "damaged", "forgotten"])
def test_lost_snapshots_are_a_question_once_epochs_are_pruned(
    followed: Followed, damage: str
) -> None:
    shipped = followed.ship(5)
    pruned(followed, before=4)
    key = followed.stream.vault.manifest_key(shipped.id)
    if damage == "damaged":
        followed.stream.store.damage(key)
    else:
        followed.stream.store.objects.clear()
    if damage == "forgotten":
        followed.store.snapshots.mark("words", shipped.id, SnapshotState.DROPPED, "lost")
    for _ in range(2):
        with pytest.raises(PermanentError) as refused:
            restore(followed.spec, followed.store, followed.stream.vault)
    assert "--empty-state` continues after the last epoch" in refused.value.hint
    assert "epochs before 4 are pruned" in refused.value.hint
    assert "replays everything" not in refused.value.hint
    assert [row.kind for row in followed.store.incidents.of("words")] == ["snapshots_lost"]
    if damage == "damaged":
        assert followed.store.snapshots.newest("words") is None


def test_a_stream_continues_with_empty_state_once_the_operator_has_said_so(
    followed: Followed,
) -> None:
    pruned(followed, before=4)
    with pytest.raises(PermanentError, match="its epochs before 4 are pruned"):
        restore(followed.spec, followed.store, followed.stream.vault)
    gap = followed.store.gaps.give_up_state("words")
    assert (gap.rows, gap.last_entered, gap.is_of_state) == (100, 9, True)
    assert followed.store.gaps.give_up_state("words").gap == gap.gap
    state = restore(followed.spec, followed.store, followed.stream.vault)
    assert read_empty_start(state.checkpoint) == 9
    assert followed.store.incidents.of("words") == []
    shipped = followed.ship(3)
    assert restore(followed.spec, followed.store, followed.stream.vault).manifest == shipped


def test_a_stream_that_never_shipped_starts_at_epoch_0(followed: Followed) -> None:
    assert restore(followed.spec, followed.store, followed.stream.vault).manifest is None
    assert followed.store.incidents.of("words", open_only=False) == []
