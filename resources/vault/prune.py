"""Pruning: drop snapshots by policy, then the packs that no remaining manifest names.

Manifests go first, so a crash in between leaves garbage and never a snapshot without its packs. Three
things protect a ship that is under way elsewhere: a pack younger than the grace is left alone, since
its manifest may be about to come; so is a pack that a live intent names, however old; and each replica's newest
snapshot is kept for the grace, since the next one may build on its packs. All ages are by the object store's clock. Snapshots that a restore or a rollback has superseded are kept for a while,
so that an operator can inspect them. Snapshots that a repair has set aside keep their packs, so that they can
be put back. Snapshots of another project are kept with their packs, and do not count.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Self

from holdfast.ft_policies.snapshots import DatedSnapshot, RetentionPolicy, RetentionVerdict
from holdfast.resources.object_store.s3 import MissingObjectError, ObjectStore, StoredObject
from holdfast.resources.vault.objects.listing import SUFFIX, Listing, aside_prefix
from holdfast.resources.vault.objects.manifest import Manifest, UnusableSnapshotError
from holdfast.resources.vault.objects.manifest_reader import decode, read_limited
from holdfast.resources.vault.objects.ownership import ForeignSnapshotError
from holdfast.resources.vault.records import SnapshotRecord

SUPERSEDED_SECONDS = 7 * 86400.0


def apply_retention(
    policy: RetentionPolicy, listed: Listing, *, now: float, grace_seconds: float
) -> list[RetentionVerdict]:
    """The verdicts of the policy, except that a snapshot which a replica may build on is kept."""
    snapshots = listed.snapshots
    facts = [_facts(snapshot) for snapshot in snapshots]
    foundations: dict[str, SnapshotRecord] = {}
    for snapshot in sorted(snapshots, key=lambda s: s.name):
        foundations[snapshot.replica] = snapshot
    fresh = {s.id: s for s in foundations.values() if now - s.created_at < grace_seconds}
    verdicts = [
        verdict
        if verdict.keep or verdict.snapshot.id not in fresh
        else replace(
            verdict,
            keep=True,
            reasons=(f"replica {fresh[verdict.snapshot.id].replica} may still build on it",),
        )
        for verdict in policy.decide(facts, now=now)
    ]
    return verdicts + [_judge_superseded(listed, snapshot, now) for snapshot in listed.superseded]


def _judge_superseded(listed: Listing, snapshot: SnapshotRecord, now: float) -> RetentionVerdict:
    ending = listed.find_superseding(snapshot)
    keep = now - ending.marked_at < SUPERSEDED_SECONDS
    since = f"superseded {ending.cause}" + ("" if keep else " long ago")
    return RetentionVerdict(_facts(snapshot), keep=keep, reasons=(since,))


def _facts(snapshot: SnapshotRecord) -> DatedSnapshot:
    return DatedSnapshot(snapshot.id, snapshot.epoch, snapshot.created_at)


@dataclass(frozen=True, slots=True)
class ReadListing:
    """A listing with the manifests of its snapshots, or the reason why one cannot be used."""

    listing: Listing
    manifests: Mapping[str, Manifest | UnusableSnapshotError]

    @classmethod
    def read(cls, listing: Listing, read: Callable[[str], Manifest]) -> Self:
        manifests: dict[str, Manifest | UnusableSnapshotError] = {}
        for snapshot in (*listing.snapshots, *listing.superseded):
            try:
                manifests[snapshot.id] = read(snapshot.id)
            except UnusableSnapshotError as error:
                manifests[snapshot.id] = error
        return cls(listing, manifests)

    @property
    def own(self) -> Listing:
        """The listing without snapshots of other projects."""
        return replace(
            self.listing,
            snapshots=[s for s in self.listing.snapshots if not self._is_foreign(s)],
            superseded=[s for s in self.listing.superseded if not self._is_foreign(s)],
        )

    @property
    def readable(self) -> list[SnapshotRecord]:
        """The snapshots of this project whose manifest can be read, the superseded ones last."""
        records = (*self.listing.snapshots, *self.listing.superseded)
        return [record for record in records if isinstance(self.manifests[record.id], Manifest)]

    def keep_foreign(self) -> list[RetentionVerdict]:
        """Verdicts that keep the snapshots of other projects."""
        return [
            RetentionVerdict(_facts(snapshot), keep=True, reasons=("belongs to another project",))
            for snapshot in (*self.listing.snapshots, *self.listing.superseded)
            if self._is_foreign(snapshot)
        ]

    def collect_named_packs(self, verdicts: Sequence[RetentionVerdict]) -> set[str]:
        """The packs that kept manifests name, as far as these can be read."""
        named: set[str] = set()
        for verdict in verdicts:
            manifest = self.manifests[verdict.snapshot.id]
            if isinstance(manifest, ForeignSnapshotError):
                manifest = manifest.manifest
            if verdict.keep and isinstance(manifest, Manifest):
                named |= set(manifest.packs)
        return named

    def find_unreadable(self, verdicts: Sequence[RetentionVerdict]) -> dict[str, str]:
        """The kept snapshots whose packs are not known, each with the reason."""
        kept = {verdict.snapshot.id for verdict in verdicts if verdict.keep}
        return {
            snapshot: str(error)
            for snapshot, error in self.manifests.items()
            if snapshot in kept
            and isinstance(error, UnusableSnapshotError)
            and not isinstance(error, ForeignSnapshotError)
        }

    def _is_foreign(self, snapshot: SnapshotRecord) -> bool:
        return isinstance(self.manifests[snapshot.id], ForeignSnapshotError)


def collect_set_aside_packs(store: ObjectStore, stream: str) -> set[str]:
    """The packs that set-aside manifests name; an unreadable manifest names none."""
    named: set[str] = set()
    for stored in store.list(aside_prefix(stream)):
        stem = stored.key.rsplit("/", 1)[1].removesuffix(SUFFIX)
        if stored.key.endswith(f"/manifests/{stem}{SUFFIX}"):
            with suppress(UnusableSnapshotError, MissingObjectError):
                body = read_limited(store.read(stored.key), snapshot_id=stem)
                named |= set(decode(body, snapshot_id=stem, stream=stream).packs)
    return named


def find_garbage(
    packs: Sequence[StoredObject], named: set[str], *, now: float, grace_seconds: float
) -> list[StoredObject]:
    """The packs that no manifest names, and old enough that none is about to."""
    return [
        pack for pack in packs if pack.key not in named and now - pack.modified_at >= grace_seconds
    ]
