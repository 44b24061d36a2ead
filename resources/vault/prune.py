"""Pruning: drop snapshots by policy, then the packs that no remaining manifest names.

Manifests go first, so a crash in between leaves garbage and never a snapshot without its packs. Two
things protect a ship that is under way elsewhere: a pack younger than the grace is left alone, since
its manifest may be about to come, and each replica's newest snapshot is kept for the grace, since
the next one may build on its packs. What a restore or a rollback has superseded is kept for a while, for whoever wants
to look into it. What a repair has set aside keeps its packs, so that it can be put back.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from ft_policies.retention import RetentionPolicy, SnapshotFacts, Verdict
from resources.object_store.s3 import MissingObjectError, ObjectStore, StoredObject
from resources.vault.listing import SUFFIX, Listing, aside_of
from resources.vault.manifest import Manifest, UnusableSnapshotError, decode
from resources.vault.records import SnapshotRecord

SUPERSEDED_SECONDS = 7 * 86400.0


def judge(
    policy: RetentionPolicy, listed: Listing, *, now: float, grace_seconds: float
) -> list[Verdict]:
    """What the policy says, except that nobody's fresh foundation is dropped."""
    snapshots = listed.snapshots
    facts = [_facts(snapshot) for snapshot in snapshots]
    foundations: dict[str, SnapshotRecord] = {}
    for snapshot in sorted(snapshots, key=lambda s: s.name):
        foundations[snapshot.replica] = snapshot
    fresh = {s.id: s for s in foundations.values() if now - s.created_at < grace_seconds}
    judged = [
        verdict
        if verdict.keep or verdict.snapshot.id not in fresh
        else replace(
            verdict,
            keep=True,
            reasons=(f"replica {fresh[verdict.snapshot.id].replica} may still build on it",),
        )
        for verdict in policy.decide(facts, now=now)
    ]
    return judged + [_of_superseded(listed, one, now) for one in listed.superseded]


def _of_superseded(listed: Listing, snapshot: SnapshotRecord, now: float) -> Verdict:
    ending = listed.superseded_by(snapshot)
    keep = now - ending.marked_at < SUPERSEDED_SECONDS
    since = f"superseded {ending.told}" + ("" if keep else " long ago")
    return Verdict(_facts(snapshot), keep=keep, reasons=(since,))


def _facts(snapshot: SnapshotRecord) -> SnapshotFacts:
    return SnapshotFacts(snapshot.id, snapshot.epoch, snapshot.created_at)


def named_packs(read: Callable[[str], Manifest], kept: Sequence[Verdict]) -> tuple[set[str], str]:
    """The packs that kept manifests name, and why that is not known if it is not."""
    named: set[str] = set()
    for verdict in kept:
        try:
            named |= set(read(verdict.snapshot.id).packs)
        except UnusableSnapshotError as error:
            return set(), str(error)
    return named, ""


def packs_aside(store: ObjectStore, stream: str) -> set[str]:
    """The packs that set-aside manifests name; one that cannot be read needs none."""
    named: set[str] = set()
    for found in store.list(aside_of(stream)):
        stem = found.key.rsplit("/", 1)[1].removesuffix(SUFFIX)
        if found.key.endswith(f"/manifests/{stem}{SUFFIX}"):
            with suppress(UnusableSnapshotError, MissingObjectError):
                named |= set(decode(store.get(found.key), snapshot_id=stem).packs)
    return named


def garbage(
    packs: Sequence[StoredObject], named: set[str], *, now: float, grace_seconds: float
) -> list[StoredObject]:
    """The packs that nobody names and that are old enough for nobody to be about to."""
    return [
        pack for pack in packs if pack.key not in named and now - pack.modified_at >= grace_seconds
    ]
