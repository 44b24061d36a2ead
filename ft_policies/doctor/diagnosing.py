"""From what was read of a stream to what is wrong with it."""

from ft_policies.doctor.checkpoint import checkpoint_findings
from ft_policies.doctor.facts import Examined
from ft_policies.doctor.findings import Finding
from ft_policies.doctor.leftovers import leftover_findings
from ft_policies.doctor.records import record_findings, source_findings
from ft_policies.doctor.snapshots import snapshot_findings


def diagnose(seen: Examined) -> list[Finding]:
    """All that is wrong, the worst first."""
    found = [
        *record_findings(seen),
        *source_findings(seen),
        *checkpoint_findings(seen),
        *snapshot_findings(seen),
        *leftover_findings(seen),
    ]
    return sorted(found, key=lambda one: -one.severity.rank)
