from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from hypothesis import given, settings, strategies as st

from holdfast.ft_policies.snapshots import RetentionPolicy
from holdfast.resources.vault.vault import SnapshotVault
from tests.builders.checkpoints import StateKind
from tests.builders.vaults import ShippedStream, a_stream, tree

LAST = RetentionPolicy(last=1)


def ids(vault: SnapshotVault) -> list[str]:
    return [record.id for record in vault.list()]


def packs(stream: ShippedStream) -> set[str]:
    return {o.key.removeprefix("words/packs/") for o in stream.store.list("words/packs/")}


def four_snapshots(folder: Path) -> ShippedStream:
    stream = a_stream(folder, snapshot_every=3, delta_bytes=1000, snapshot_bytes=1500)
    for _ in range(4):
        stream.ship(2)
        stream.store.now += 7200
    return stream


def test_the_listing_is_newest_first_with_one_request(tmp_path: Path) -> None:
    stream = four_snapshots(tmp_path)
    stream.store.calls.clear()
    assert [record.epoch for record in stream.vault.list()] == [7, 5, 3, 1]
    assert stream.store.calls == ["list words/manifests/"]


def test_what_is_no_snapshot_is_not_listed(tmp_path: Path) -> None:
    stream = four_snapshots(tmp_path)
    stream.store.put("words/manifests/notes.json.gz", b"somebody's own")
    stream.store.put("words/manifests/000000000009-1-r1.json.gz.part", b"half")
    assert len(stream.vault.list()) == 4


def test_what_is_dropped_goes_with_the_packs_that_only_it_named(tmp_path: Path) -> None:
    stream = four_snapshots(tmp_path)
    before = sum(o.size_bytes for o in stream.store.list("words/packs/"))
    pruned = stream.vault.prune(LAST, now=stream.store.now)
    assert stream.parent is not None
    assert ids(stream.vault) == [stream.parent.id]
    assert packs(stream) == set(stream.parent.packs)
    assert pruned.packs_deleted
    after = sum(o.size_bytes for o in stream.store.list("words/packs/"))
    assert pruned.bytes_freed == before - after
    assert stream.vault.verify(stream.parent.id) == []


def test_manifests_go_before_packs(tmp_path: Path) -> None:
    stream = four_snapshots(tmp_path)
    seen: list[list[str]] = []
    delete = stream.store.delete
    stream.store.delete = lambda keys: (seen.append(list(keys)), delete(keys))[1]  # type: ignore[method-assign, func-returns-value]
    stream.vault.prune(LAST, now=stream.store.now)
    assert [{key.split("/")[1] for key in keys} for keys in seen] == [{"manifests"}, {"packs"}]


def test_a_dry_run_tells_and_does_nothing(tmp_path: Path) -> None:
    stream = four_snapshots(tmp_path)
    objects = dict(stream.store.objects)
    told = stream.vault.prune(LAST, now=stream.store.now, dry_run=True)
    assert stream.store.objects == objects
    done = stream.vault.prune(LAST, now=stream.store.now)
    assert told == done


def test_a_pack_whose_manifest_may_still_come_is_left_for_the_grace(tmp_path: Path) -> None:
    stream = four_snapshots(tmp_path)
    stream.store.put("words/packs/000000000009-1-r1.abc.pack", b"being shipped")
    stream.vault.prune(LAST, now=stream.store.now + 3599)
    assert "000000000009-1-r1.abc.pack" in packs(stream)
    stream.vault.prune(LAST, now=stream.store.now + 3600)
    assert "000000000009-1-r1.abc.pack" not in packs(stream)


def test_a_slower_replica_can_still_build_on_its_newest_snapshot(tmp_path: Path) -> None:
    slow = a_stream(tmp_path / "slow", snapshot_every=1000)
    slow.replica = "slow"
    slow.ship(3)
    ahead = a_stream(tmp_path / "ahead", snapshot_every=1000)
    ahead.store = slow.store
    ahead.ship(9)
    pruned = ahead.vault.prune(LAST, now=slow.store.now + 60)
    assert pruned.dropped == []
    assert "replica slow may still build on it" in pruned.verdicts[1].reasons
    assert slow.vault.verify(slow.ship().manifest.id) == []
    assert len(ahead.vault.prune(LAST, now=slow.store.now + 9999).dropped) == 2


def test_a_manifest_that_cannot_be_read_keeps_every_pack(tmp_path: Path) -> None:
    stream = four_snapshots(tmp_path)
    before = packs(stream)
    assert stream.parent is not None
    stream.store.truncate(f"words/manifests/{stream.parent.id}.json.gz", to=20)
    pruned = stream.vault.prune(LAST, now=stream.store.now)
    assert pruned.packs_deleted == []
    assert "no pack was deleted" in pruned.note
    assert packs(stream) == before


@dataclass(frozen=True)
class Ship:
    epochs: int


@dataclass(frozen=True)
class Prune:
    last: int
    grace_seconds: float


@dataclass(frozen=True)
class Restart:
    """The checkpoint is lost: go on from the newest snapshot in a new folder."""


Step: TypeAlias = Ship | Prune | Restart
STEPS = st.lists(
    st.one_of(
        st.builds(Ship, st.integers(1, 4)),
        st.builds(Prune, st.integers(1, 3), st.sampled_from([0.0, 100.0])),
        st.builds(Restart),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=25, deadline=None)
@given(steps=STEPS, kind=st.sampled_from(list(StateKind)), limit=st.sampled_from([300, 1 << 30]))
def test_whatever_happens_every_kept_snapshot_restores_to_the_byte(
    steps: list[Step], kind: StateKind, limit: int
) -> None:
    with TemporaryDirectory() as folder:
        home = Path(folder)
        stream = a_stream(home, kind=kind, partitions=2, snapshot_every=3)
        stream.pack_limit_bytes = limit
        for number, step in enumerate(steps):
            stream.store.now += 60
            perform(stream, step, home / f"restart-{number}")
            for snapshot in ids(stream.vault):
                back = home / f"back-{number}-{snapshot}"
                stream.vault.restore(stream.vault.manifest(snapshot), back)
                assert tree(back) == stream.contents[snapshot]


def perform(stream: ShippedStream, step: Step, folder: Path) -> None:
    match step:
        case Ship(epochs):
            shipped = stream.ship(epochs)
            assert stream.vault.list()[0].id == shipped.manifest.id
        case Prune(last, grace_seconds):
            stream.vault.prune(
                RetentionPolicy(last=last), now=stream.store.now, grace_seconds=grace_seconds
            )
        case Restart():
            found = stream.vault.restore_newest(folder)
            assert (found is None) == (stream.parent is None)
            if found is not None:
                stream.checkpoint.root = folder
                stream.parent = found.manifest
