"""Pruning: drop snapshots by policy, then the packs that no remaining manifest names.

Manifests go first, so a crash in between leaves garbage and never a snapshot without its packs. Two
things protect a ship that is under way elsewhere: a pack younger than the grace is left alone, since
its manifest may be about to come, and each replica's newest snapshot is kept for the grace, since
the next one may build on its packs.
"""

from collections.abc import Sequence
from dataclasses import replace

from ft_policies.retention import RetentionPolicy, SnapshotFacts, Verdict
from resources.object_store import StoredObject
from resources.vault.records import SnapshotRecord


def judge(
    policy: RetentionPolicy,
    snapshots: Sequence[SnapshotRecord],
    *,
    now: float,
    grace_seconds: float,
) -> list[Verdict]:
    """What the policy says, except that nobody's fresh foundation is dropped."""
    facts = [SnapshotFacts(s.id, s.epoch, s.created_at) for s in snapshots]
    foundations: dict[str, SnapshotRecord] = {}
    for snapshot in sorted(snapshots, key=lambda s: s.name):
        foundations[snapshot.replica] = snapshot
    fresh = {s.id: s for s in foundations.values() if now - s.created_at < grace_seconds}
    return [
        verdict
        if verdict.keep or verdict.snapshot.id not in fresh
        else replace(
            verdict,
            keep=True,
            reasons=(f"replica {fresh[verdict.snapshot.id].replica} may still build on it",),
        )
        for verdict in policy.decide(facts, now=now)
    ]


def garbage(
    packs: Sequence[StoredObject], named: set[str], *, now: float, grace_seconds: float
) -> list[StoredObject]:
    """The packs that nobody names and that are old enough for nobody to be about to."""
    return [
        pack for pack in packs if pack.key not in named and now - pack.modified_at >= grace_seconds
    ]
