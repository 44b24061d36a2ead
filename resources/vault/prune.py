"""Pruning: drop snapshots by policy, then the packs that no remaining manifest names.

Manifests go first, so a crash in between leaves garbage and never a snapshot without its packs. Two
things protect a ship that is under way elsewhere: a pack younger than the grace is left alone, since
its manifest may be about to come, and each replica's newest snapshot is kept for the grace, since
the next one may build on its packs. Snapshots that a restore or a rollback has superseded are kept for a while,
so that an operator can inspect them. Snapshots that a repair has set aside keep their packs, so that they can
be put back.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from holdfast.ft_policies.snapshots import RetentionPolicy, RetentionVerdict, SnapshotFacts
from holdfast.resources.object_store.s3 import MissingObjectError, ObjectStore, StoredObject
from holdfast.resources.vault.listing import SUFFIX, Listing, aside_prefix
from holdfast.resources.vault.manifest import Manifest, UnusableSnapshotError
from holdfast.resources.vault.manifest_reader import decode, read_limited
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
    ending = listed.superseded_by(snapshot)
    keep = now - ending.marked_at < SUPERSEDED_SECONDS
    since = f"superseded {ending.cause}" + ("" if keep else " long ago")
    return RetentionVerdict(_facts(snapshot), keep=keep, reasons=(since,))


def _facts(snapshot: SnapshotRecord) -> SnapshotFacts:
    return SnapshotFacts(snapshot.id, snapshot.epoch, snapshot.created_at)


def collect_named_packs(
    read: Callable[[str], Manifest], kept: Sequence[RetentionVerdict]
) -> tuple[set[str], str]:
    """The packs that kept manifests name, or the reason why they cannot be listed."""
    named: set[str] = set()
    for verdict in kept:
        try:
            named |= set(read(verdict.snapshot.id).packs)
        except UnusableSnapshotError as error:
            return set(), str(error)
    return named, ""


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
