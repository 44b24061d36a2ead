from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, TypeAlias

import pytest
from hypothesis import given, settings, strategies as st

from holdfast.ft_policies.errors import TransientError
from holdfast.ft_policies.snapshots import RetentionPolicy
from holdfast.observation.alerts import find_incident_alerts
from holdfast.resources.control_store.records import SnapshotState
from holdfast.resources.vault import catalogue
from holdfast.resources.vault.objects.intents import INTENT_SECONDS, LostPacksError
from holdfast.resources.vault.vault import SnapshotVault
from tests.builders.checkpoints import StateKind
from tests.builders.control_rows import record_snapshot
from tests.builders.recorded_stream import a_restorable_stream
from tests.builders.streams import CLICKS
from tests.builders.vaults import ShippedStream, a_stream, tree
from tests.fakes.object_store import InMemoryObjectStore
from tests.fakes.projects import simulated_projects

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
    stream.store.put("words/manifests/notes.json.gz", b"notes of the user")
    stream.store.put("words/manifests/000000000009-1-r1.json.gz.part", b"half")
    assert len(stream.vault.list()) == 4


def test_what_is_dropped_goes_with_the_packs_that_only_it_named(tmp_path: Path) -> None:
    stream = four_snapshots(tmp_path)
    before = sum(o.size_bytes for o in stream.store.list("words/packs/"))
    pruned = stream.vault.prune(LAST)
    assert stream.parent is not None
    assert ids(stream.vault) == [stream.parent.id]
    assert packs(stream) == set(stream.parent.packs)
    assert pruned.packs_deleted
    after = sum(o.size_bytes for o in stream.store.list("words/packs/"))
    assert pruned.bytes_freed == before - after
    assert stream.vault.verify(stream.parent.id) == []


def test_manifests_go_before_packs(tmp_path: Path) -> None:
    stream = four_snapshots(tmp_path)
    listings: list[list[str]] = []
    delete = stream.store.delete
    stream.store.delete = lambda keys: (listings.append(list(keys)), delete(keys))[1]  # type: ignore[method-assign, func-returns-value]
    stream.vault.prune(LAST)
    assert [{key.split("/")[1] for key in keys} for keys in listings] == [{"manifests"}, {"packs"}]


def test_a_dry_run_tells_and_does_nothing(tmp_path: Path) -> None:
    stream = four_snapshots(tmp_path)
    objects = dict(stream.store.objects)
    planned = stream.vault.prune(LAST, dry_run=True)
    assert stream.store.objects == objects
    done = stream.vault.prune(LAST)
    assert planned == done


def test_a_pack_whose_manifest_may_still_come_is_left_for_the_grace(tmp_path: Path) -> None:
    stream = four_snapshots(tmp_path)
    stream.store.put("words/packs/000000000009-1-r1.abc.pack", b"being shipped")
    stream.store.now += 3599
    stream.vault.prune(LAST)
    assert "000000000009-1-r1.abc.pack" in packs(stream)
    stream.store.now += 1
    stream.vault.prune(LAST)
    assert "000000000009-1-r1.abc.pack" not in packs(stream)


def test_a_slower_replica_can_still_build_on_its_newest_snapshot(tmp_path: Path) -> None:
    slow = a_stream(tmp_path / "slow", snapshot_every=1000)
    slow.replica = "slow"
    slow.ship(3)
    ahead = a_stream(tmp_path / "ahead", snapshot_every=1000)
    ahead.store = slow.store
    ahead.ship(9)
    slow.store.now += 60
    pruned = ahead.vault.prune(LAST)
    assert pruned.dropped == []
    assert "replica slow may still build on it" in pruned.verdicts[1].reasons
    assert slow.vault.verify(slow.ship().manifest.id) == []
    slow.store.now += 9999
    assert len(ahead.vault.prune(LAST).dropped) == 2


def test_a_manifest_that_cannot_be_read_keeps_every_pack(tmp_path: Path) -> None:
    stream = four_snapshots(tmp_path)
    before = packs(stream)
    assert stream.parent is not None
    stream.store.truncate(f"words/manifests/{stream.parent.id}.json.gz", to=20)
    pruned = stream.vault.prune(LAST)
    assert pruned.packs_deleted == []
    assert "no pack was deleted" in pruned.note
    assert packs(stream) == before


def test_a_manifest_that_keeps_every_pack_is_an_incident_until_it_is_away(tmp_path: Path) -> None:
    with simulated_projects(tmp_path).open() as project:
        a_restorable_stream(project)
        project.objects.now = project.store.now()
        vault, store = project.vault(CLICKS), project.store
        newest = vault.list()[0]
        record_snapshot(store, vault, CLICKS, newest.id)
        whole = project.objects.get(vault.manifest_key(newest.id))
        project.objects.truncate(vault.manifest_key(newest.id), to=20)
        assert list(catalogue.prune(project, CLICKS, dry_run=True).damaged) == [newest.id]
        assert store.incidents.of(CLICKS) == []
        for _ in range(2):
            catalogue.prune(project, CLICKS, dry_run=False)
        (incident,) = store.incidents.of(CLICKS)
        assert (incident.kind, incident.detail["snapshot"]) == ("snapshot_damaged", newest.id)
        assert [alert.stream for alert in find_incident_alerts(project, closed_since=0.0)] == [
            CLICKS
        ]
        row = store.snapshots.get(CLICKS, newest.id)
        assert row is not None
        assert row.state is SnapshotState.DAMAGED
        project.objects.put(vault.manifest_key(newest.id), whole)
        catalogue.prune(project, CLICKS, dry_run=False)
        assert store.incidents.of(CLICKS) == []


def test_ages_are_by_the_clock_of_the_object_store_not_of_the_control_store(
    tmp_path: Path,
) -> None:
    with simulated_projects(tmp_path).open() as project:
        assert project.store.now() > project.objects.now + 3600
        project.objects.put(f"{CLICKS}/packs/000000000009-1-r1.abc.pack", b"being shipped")
        assert catalogue.prune(project, CLICKS, dry_run=False).packs_deleted == []
        project.objects.now += 3600
        assert len(catalogue.prune(project, CLICKS, dry_run=False).packs_deleted) == 1


@dataclass
class SlowStore(InMemoryObjectStore):
    """Each pack takes 20 minutes, and after each a retention of another process may run."""

    after_pack: Callable[[], object] = lambda: None

    def put(self, key: str, body: bytes | BinaryIO) -> None:
        super().put(key, body)
        if "/packs/" in key:
            self.now += 1200
            self.after_pack()


def test_an_upload_of_hours_keeps_its_packs(tmp_path: Path) -> None:
    stream = a_stream(tmp_path, partitions=12, delta_bytes=1000)
    stream.pack_limit_bytes = 1500
    stream.store = store = SlowStore()
    store.after_pack = lambda: stream.vault.prune(LAST)
    shipped = stream.ship()
    assert len(shipped.manifest.packs) > 10
    assert stream.vault.verify(shipped.manifest.id) == []
    assert store.list("words/intents/") == []


def test_a_copy_of_hours_keeps_its_packs(tmp_path: Path) -> None:
    source, target = a_stream(tmp_path, partitions=12, delta_bytes=1000), SlowStore()
    source.pack_limit_bytes = 1500
    shipped = source.ship().manifest
    vault = SnapshotVault(target, "words")
    target.after_pack = lambda: vault.prune(LAST)
    vault.adopt(shipped, source.vault)
    assert vault.verify(shipped.id) == []
    assert target.list("words/intents/") == []


def test_the_packs_of_an_upload_that_was_abandoned_go_when_its_intent_expires(
    tmp_path: Path,
) -> None:
    stream = a_stream(tmp_path, partitions=3, delta_bytes=1000)
    stream.pack_limit_bytes = 1500
    stream.store.plan_failures([None, None, None, TransientError("away")])
    with pytest.raises(TransientError, match="away"):
        stream.ship()
    assert len(packs(stream)) == 1
    stream.store.now += INTENT_SECONDS - 1
    stream.vault.prune(LAST)
    assert len(packs(stream)) == 1
    stream.store.now += 1
    stream.vault.prune(LAST)
    assert stream.store.objects == {}


def test_an_intent_that_cannot_be_read_keeps_every_pack(tmp_path: Path) -> None:
    stream = four_snapshots(tmp_path)
    before = packs(stream)
    stream.store.put("words/intents/000000000009-1-r1.json", b"{")
    pruned = stream.vault.prune(LAST)
    assert "cannot be read" in pruned.note
    assert packs(stream) == before


def test_a_snapshot_whose_packs_were_deleted_meanwhile_is_taken_back(tmp_path: Path) -> None:
    stream = a_stream(tmp_path, snapshot_every=1000)
    first = stream.ship(3).manifest
    stream.store.now += 7200  # its packs are as old, and something else has deleted one
    stream.store.delete([f"words/packs/{next(iter(first.packs))}"])
    with pytest.raises(LostPacksError, match="is missing"):
        stream.ship()
    assert ids(stream.vault) == [first.id]


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
            stream.vault.prune(RetentionPolicy(last=last), grace_seconds=grace_seconds)
        case Restart():
            newest = stream.vault.restore_newest(folder)
            assert (newest is None) == (stream.parent is None)
            if newest is not None:
                stream.checkpoint.root = folder
                stream.parent = newest.manifest
