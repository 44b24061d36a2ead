"""From what was read of a stream to what is wrong with it."""

from dataclasses import replace

from ft_policies.doctor.checkpoint import checkpoint_findings
from ft_policies.doctor.facts import Examined
from ft_policies.doctor.findings import Finding, ranked
from ft_policies.doctor.leftovers import leftover_findings
from ft_policies.doctor.records import (
    half_restored,
    record_findings,
    skip_findings,
    source_findings,
)
from ft_policies.doctor.snapshots import snapshot_findings


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
