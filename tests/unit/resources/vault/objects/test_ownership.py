"""Two projects with one bucket, prefix and stream name: neither restores nor deletes what is the other's."""

import gzip
import json
from pathlib import Path

import pytest

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.snapshots import RetentionPolicy
from holdfast.resources.object_store.s3 import MissingObjectError
from holdfast.resources.vault.objects.manifest_reader import decode
from holdfast.resources.vault.objects.ownership import OWNER_KEY, ForeignSnapshotError, Ownership
from holdfast.resources.vault.vault import SnapshotVault
from tests.builders.vaults import ShippedStream, a_stream, tree
from tests.fakes.object_store import InMemoryObjectStore

LAST = RetentionPolicy(last=1)


def vault_of(stream: ShippedStream, project: str) -> SnapshotVault:
    return SnapshotVault(stream.store, "words", project_id=lambda: project)


def ship(stream: ShippedStream, project: str, *, replica: str, epochs: int = 1) -> str:
    stream.project, stream.replica, stream.parent = project, replica, None
    return stream.ship(epochs).manifest.id


def two_projects(folder: Path) -> tuple[ShippedStream, str, str]:
    """Both have shipped to one prefix, as two old versions could; the other one is ahead."""
    stream = a_stream(folder, snapshot_every=1000)
    ours = ship(stream, "ours", replica="words-1")
    stream.store.delete([OWNER_KEY])
    theirs = ship(stream, "theirs", replica="words-2", epochs=4)
    stream.store.delete([OWNER_KEY])
    return stream, ours, theirs


def test_the_first_project_claims_the_prefix_and_another_is_refused(tmp_path: Path) -> None:
    stream = a_stream(tmp_path)
    ship(stream, "ours", replica="words-1")
    assert json.loads(stream.store.get(OWNER_KEY)) == {"project": "ours"}
    before = dict(stream.store.objects)
    theirs = vault_of(stream, "theirs")
    with pytest.raises(PermanentError, match="belong to another project") as refused:
        ship(stream, "theirs", replica="words-2")
    assert "object_store.prefix" in refused.value.hint
    with pytest.raises(PermanentError, match="belong to another project"):
        theirs.restore_newest(tmp_path / "back")
    with pytest.raises(PermanentError, match="belong to another project"):
        theirs.prune(LAST)
    with pytest.raises(PermanentError, match="belong to another project"):
        theirs.mark(1, after_epoch=0)
    assert stream.store.objects == before


class ClaimedMeanwhile(InMemoryObjectStore):
    """A rival claims the prefix after another project has seen that it has no owner."""

    def get(self, key: str) -> bytes:
        try:
            return super().get(key)
        except MissingObjectError:
            self.objects[OWNER_KEY] = (b'{"project": "theirs"}', self.now)
            raise


def test_of_two_projects_that_claim_a_prefix_at_once_only_one_gets_it() -> None:
    store = ClaimedMeanwhile()
    with pytest.raises(PermanentError, match="belong to another project"):
        Ownership(store, lambda: "ours").require_prefix(claim=True)
    assert json.loads(store.get(OWNER_KEY)) == {"project": "theirs"}
    Ownership(store, lambda: "theirs").require_prefix(claim=True)


def test_a_snapshot_of_another_project_is_passed_over(tmp_path: Path) -> None:
    stream, ours, theirs = two_projects(tmp_path)
    vault = vault_of(stream, "ours")
    with pytest.raises(ForeignSnapshotError, match="belongs to another project"):
        vault.manifest(theirs)
    newest = vault.restore_newest(tmp_path / "back")
    assert newest is not None
    assert newest.manifest.id == ours
    assert [refused.id for refused in newest.refused] == [theirs]
    assert tree(tmp_path / "back") == stream.contents[ours]


def test_retention_drops_nothing_of_another_project_and_keeps_its_own(tmp_path: Path) -> None:
    stream, ours, theirs = two_projects(tmp_path)
    stream.store.now += 9999
    pruned = vault_of(stream, "ours").prune(LAST)
    assert pruned.dropped == []
    assert pruned.packs_deleted == []
    reasons = {verdict.snapshot.id: verdict.reasons for verdict in pruned.verdicts}
    assert reasons[theirs] == ("belongs to another project",)
    stream.store.delete([OWNER_KEY])
    assert vault_of(stream, "theirs").prune(LAST).dropped == []
    for project, snapshot in (("ours", ours), ("theirs", theirs)):
        assert vault_of(stream, project).verify(snapshot) == []


def test_a_manifest_of_the_last_version_is_the_projects_own(tmp_path: Path) -> None:
    stream = a_stream(tmp_path)
    snapshot = ship(stream, "", replica="words-1")
    key = stream.vault.manifest_key(snapshot)
    document = json.loads(gzip.decompress(stream.store.get(key)))
    del document["owner"]
    body = gzip.compress(json.dumps(document).encode())
    assert decode(body, snapshot_id=snapshot, stream="words").owner == ""
    stream.store.put(key, body)
    newest = vault_of(stream, "ours").restore_newest(tmp_path / "back")
    assert newest is not None
    assert newest.refused == []


def test_a_copy_belongs_to_the_project_that_made_it(tmp_path: Path) -> None:
    stream, copies = a_stream(tmp_path / "one"), a_stream(tmp_path / "two")
    snapshot = ship(stream, "theirs", replica="words-2")
    source = SnapshotVault(stream.store, "words")  # on behalf of no project, as `--from` reads it
    target = vault_of(copies, "ours")
    target.adopt(source.manifest(snapshot), source)
    assert target.manifest(snapshot).owner == "ours"
    assert target.verify(snapshot) == []


def test_an_owner_that_cannot_be_read_is_no_invitation(tmp_path: Path) -> None:
    stream = a_stream(tmp_path)
    stream.store.put(OWNER_KEY, b"{")
    with pytest.raises(PermanentError, match="cannot be read"):
        ship(stream, "ours", replica="words-1")
