"""From what was read of a stream to what is wrong with it."""

from collections.abc import Iterator
from dataclasses import replace

from holdfast.ft_policies.doctor.checkpoint import checkpoint_findings
from holdfast.ft_policies.doctor.facts import Examined
from holdfast.ft_policies.doctor.findings import (
    Finding,
    FindingKind,
    Repair,
    RepairKind,
    Severity,
    ranked,
)
from holdfast.ft_policies.doctor.records import (
    half_restored,
    record_findings,
    skip_findings,
    source_findings,
)
from holdfast.ft_policies.doctor.snapshots import UNDO, snapshot_findings

SHOWN_FOLDERS = 3


def leftover_findings(seen: Examined) -> Iterator[Finding]:
    """Staged files as one finding, each other folder as one of its own."""
    staged = [one for one in seen.leftovers if one.staging]
    if staged:
        shown = ", ".join(one.path.rsplit("/", 1)[1] for one in staged[:SHOWN_FOLDERS])
        rest = f" and {len(staged) - SHOWN_FOLDERS} more" if len(staged) > SHOWN_FOLDERS else ""
        yield _finding(
            FindingKind.LEFTOVER_STAGING,
            staged[0].path.rsplit("/", 1)[0],
            f"no commit names {shown}{rest}, and their replicas have ended",
        )
    for one in seen.leftovers:
        if not one.staging:
            yield _finding(FindingKind.LEFTOVER_FOLDER, one.path, f"left over from {one.of}")


def _finding(kind: FindingKind, where: str, evidence: str) -> Finding:
    return Finding(
        kind=kind,
        severity=Severity.NOTE,
        where=where,
        evidence=evidence,
        repairs=(
            Repair(
                kind=RepairKind.SET_ASIDE_LEFTOVERS,
                does="sets the folder aside",
                undo=UNDO,
            ),
        ),
    )


def diagnose(seen: Examined) -> list[Finding]:
    """All that is wrong, the worst first, each with its repairs, the best first."""
    if seen.restoring_to is not None:
        return [half_restored(seen)]
    found = [
        *record_findings(seen),
        *source_findings(seen),
        *skip_findings(seen),
        *checkpoint_findings(seen),
        *snapshot_findings(seen),
        *leftover_findings(seen),
    ]
    mendable = [replace(one, repairs=ranked(one.repairs)) for one in found]
    return sorted(mendable, key=lambda one: -one.severity.rank)
