"""What is wrong with the primary's local checkpoint.

It is disposable: the next replica restores a snapshot into a folder of its own. But a live primary
ships its snapshots from it, and starts its query on it again after a failure.
"""

from collections.abc import Iterator, Sequence

from holdfast.ft_policies.doctor.facts import CheckpointFacts, Examined
from holdfast.ft_policies.doctor.findings import (
    Finding,
    FindingKind,
    Repair,
    RepairKind,
    Severity,
    replay_from,
)

SHOWN_FILES = 5


def checkpoint_findings(seen: Examined) -> Iterator[Finding]:
    """All that is wrong with the checkpoint, if one was read."""
    facts = seen.checkpoint
    if facts is None:
        return
    newest = max(facts.commits, default=-1)
    needed = {newest, max(newest - 1, 0)} if facts.commits else set()
    ahead = _ahead(facts)
    if not facts.has_metadata:
        yield _finding(seen, facts, FindingKind.MISSING_METADATA, "there is no file metadata")
    if holes := _holes_in_offsets(facts, needed - set(ahead)):
        told = "missing or unreadable in offsets/"
        fatal = not needed.isdisjoint(holes)
        yield _finding(seen, facts, FindingKind.HOLE_IN_OFFSETS, told, holes, fatal=fatal)
    if holes := _holes_in_commits(facts):
        told = "missing or unreadable in commits/"
        yield _finding(seen, facts, FindingKind.HOLE_IN_COMMITS, told, holes, fatal=False)
    if ahead:
        told = (
            f"in commits/ and not in offsets/, which ends at {max(facts.offsets, default='none')}"
        )
        yield _finding(seen, facts, FindingKind.COMMIT_AHEAD_OF_OFFSET, told, ahead)
    if facts.state_faults:
        yield _finding(seen, facts, FindingKind.STATE_FILE, _files_told(facts))


def _ahead(facts: CheckpointFacts) -> list[int]:
    planned = max(facts.offsets, default=-1)
    return [epoch for epoch in facts.commits if epoch > planned]


def _holes_in_offsets(facts: CheckpointFacts, needed: set[int]) -> list[int]:
    return sorted(_between(facts.offsets) | (needed - set(facts.offsets)))


def _holes_in_commits(facts: CheckpointFacts) -> list[int]:
    """Between two commits, and those that are overdue: an epoch is planned once the last is done."""
    first = max(facts.commits) + 1 if facts.commits else min(facts.offsets, default=0)
    overdue = range(first, max(facts.offsets, default=0))
    return sorted(_between(facts.commits) | set(overdue))


def _between(numbers: Sequence[int]) -> set[int]:
    return set(range(min(numbers, default=0), max(numbers, default=0))) - set(numbers)


def _files_told(facts: CheckpointFacts) -> str:
    shown = [f"{fault.path}: {fault.reason}" for fault in facts.state_faults[:SHOWN_FILES]]
    more = len(facts.state_faults) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more else "")


def _finding(
    seen: Examined,
    facts: CheckpointFacts,
    kind: FindingKind,
    evidence: str,
    epochs: Sequence[int] = (),
    *,
    fatal: bool = True,
) -> Finding:
    severity = Severity.CRITICAL if fatal else Severity.WARNING
    if not facts.live:
        evidence += "; nobody reads it again: the next replica restores a snapshot"
        severity = Severity.NOTE
    return Finding(
        kind=kind,
        severity=severity,
        where=facts.where,
        evidence=evidence,
        epochs=tuple(epochs),
        repairs=(_restart(seen, facts),) if facts.live else (),
    )


def _restart(seen: Examined, facts: CheckpointFacts) -> Repair:
    good = seen.newest_good
    start = "epoch 0, since no snapshot is good" if good is None else f"snapshot {good.id}"
    return Repair(
        kind=RepairKind.RESTART_PRIMARY,
        does=f"ends {facts.replica} and has another primary go on from {start}, or its secondary "
        "take over; every epoch is still put out once",
        cost=replay_from(seen, good),
        undo="the old checkpoint is kept until --confirm, to be looked into; --undo puts it back",
    )
