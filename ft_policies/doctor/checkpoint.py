"""Findings about the local checkpoint of the primary.

The checkpoint is disposable: the next replica restores a snapshot into its own folder. But a live primary
ships its snapshots from it, and restarts its query on it after a failure.
"""

from collections.abc import Iterator, Sequence

from holdfast.ft_policies.doctor.facts import CheckpointFacts, ExaminedStream
from holdfast.ft_policies.doctor.findings import (
    Finding,
    FindingKind,
    Repair,
    RepairKind,
    Severity,
    replay_from,
)

SHOWN_FILES = 5


def checkpoint_findings(examined: ExaminedStream) -> Iterator[Finding]:
    """Damage of the checkpoint, if one was read."""
    facts = examined.checkpoint
    if facts is None:
        return
    newest = max(facts.commits, default=-1)
    needed = {newest, max(newest - 1, 0)} if facts.commits else set()
    ahead = _ahead(facts)
    if not facts.has_metadata:
        yield _finding(
            examined, facts, FindingKind.MISSING_METADATA, "the file `metadata` is missing"
        )
    if holes := _holes_in_offsets(facts, needed - set(ahead)):
        evidence = "missing or unreadable in offsets/"
        fatal = not needed.isdisjoint(holes)
        yield _finding(examined, facts, FindingKind.HOLE_IN_OFFSETS, evidence, holes, fatal=fatal)
    if holes := _holes_in_commits(facts):
        evidence = "missing or unreadable in commits/"
        yield _finding(examined, facts, FindingKind.HOLE_IN_COMMITS, evidence, holes, fatal=False)
    if ahead:
        evidence = (
            f"in commits/ but not in offsets/, which ends at {max(facts.offsets, default='none')}"
        )
        yield _finding(examined, facts, FindingKind.COMMIT_AHEAD_OF_OFFSET, evidence, ahead)
    if facts.state_damage:
        yield _finding(examined, facts, FindingKind.STATE_FILE, _format_damage(facts))


def _ahead(facts: CheckpointFacts) -> list[int]:
    planned = max(facts.offsets, default=-1)
    return [epoch for epoch in facts.commits if epoch > planned]


def _holes_in_offsets(facts: CheckpointFacts, needed: set[int]) -> list[int]:
    return sorted(_between(facts.offsets) | (needed - set(facts.offsets)))


def _holes_in_commits(facts: CheckpointFacts) -> list[int]:
    """Holes between commits, and overdue commits: an epoch is planned once the one before is done."""
    first = max(facts.commits) + 1 if facts.commits else min(facts.offsets, default=0)
    overdue = range(first, max(facts.offsets, default=0))
    return sorted(_between(facts.commits) | set(overdue))


def _between(numbers: Sequence[int]) -> set[int]:
    return set(range(min(numbers, default=0), max(numbers, default=0))) - set(numbers)


def _format_damage(facts: CheckpointFacts) -> str:
    shown = [f"{damage.path}: {damage.reason}" for damage in facts.state_damage[:SHOWN_FILES]]
    more = len(facts.state_damage) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more else "")


def _finding(
    examined: ExaminedStream,
    facts: CheckpointFacts,
    kind: FindingKind,
    evidence: str,
    epochs: Sequence[int] = (),
    *,
    fatal: bool = True,
) -> Finding:
    severity = Severity.CRITICAL if fatal else Severity.WARNING
    if not facts.live:
        evidence += "; it is not read again: the next replica restores a snapshot"
        severity = Severity.NOTE
    return Finding(
        kind=kind,
        severity=severity,
        where=facts.where,
        evidence=evidence,
        epochs=tuple(epochs),
        repairs=(_restart(examined, facts),) if facts.live else (),
    )


def _restart(examined: ExaminedStream, facts: CheckpointFacts) -> Repair:
    good = examined.newest_good
    start = "epoch 0, because no snapshot is good" if good is None else f"snapshot {good.id}"
    return Repair(
        kind=RepairKind.RESTART_PRIMARY,
        does=f"ends {facts.replica}; a new primary continues from {start}, or the secondary takes "
        "over; the output still has every epoch once",
        cost=replay_from(examined, good),
        undo="--undo puts the old checkpoint back, until --confirm deletes it",
    )
