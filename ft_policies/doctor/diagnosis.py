"""Diagnoses a stream: from what was read of it to its findings."""

from collections.abc import Iterator
from dataclasses import replace

from holdfast.ft_policies.doctor.checkpoint import checkpoint_findings
from holdfast.ft_policies.doctor.facts import ExaminedStream
from holdfast.ft_policies.doctor.findings import (
    Finding,
    FindingKind,
    Repair,
    RepairKind,
    Severity,
    rank_repairs,
)
from holdfast.ft_policies.doctor.records import (
    half_restored,
    record_findings,
    skip_findings,
    source_findings,
)
from holdfast.ft_policies.doctor.snapshots import UNDO, snapshot_findings

SHOWN_FOLDERS = 3


def leftover_findings(examined: ExaminedStream) -> Iterator[Finding]:
    """One finding for all staged files, and one for each other folder."""
    staged = [folder for folder in examined.leftovers if folder.staging]
    if staged:
        shown = ", ".join(folder.path.rsplit("/", 1)[1] for folder in staged[:SHOWN_FOLDERS])
        rest = f" and {len(staged) - SHOWN_FOLDERS} more" if len(staged) > SHOWN_FOLDERS else ""
        yield _finding(
            FindingKind.LEFTOVER_STAGING,
            staged[0].path.rsplit("/", 1)[0],
            f"no commit names {shown}{rest}, and their replicas have ended",
        )
    for folder in examined.leftovers:
        if not folder.staging:
            yield _finding(FindingKind.LEFTOVER_FOLDER, folder.path, f"left over from {folder.of}")


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


def diagnose(examined: ExaminedStream) -> list[Finding]:
    """All findings, worst first, each with its repairs, best first."""
    if examined.restoring_to is not None:
        return [half_restored(examined)]
    findings = [
        *record_findings(examined),
        *source_findings(examined),
        *skip_findings(examined),
        *checkpoint_findings(examined),
        *snapshot_findings(examined),
        *leftover_findings(examined),
    ]
    ranked = [replace(finding, repairs=rank_repairs(finding.repairs)) for finding in findings]
    return sorted(ranked, key=lambda finding: -finding.severity.rank)
