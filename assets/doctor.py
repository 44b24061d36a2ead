"""The doctor as an asset check: damage to a stream's checkpoint, snapshots, records, table and source."""

from collections.abc import Sequence

import dagster as dg

from holdfast.assets.keys import stream_key
from holdfast.assets.project_resource import ProjectResource, dagster_errors
from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.ft_policies.doctor.findings import Finding, Severity, worst_severity
from holdfast.observation.doctor.examine import diagnose_stream

DOCTOR = "doctor"


def checks(declared: StreamDeclaration) -> list[dg.AssetChecksDefinition]:
    """The check that the doctor finds nothing wrong."""
    name = declared.name

    @dg.asset_check(
        asset=stream_key(name),
        name=DOCTOR,
        description="Checkpoint, snapshots, epoch log, ledger, output table and source are intact and agree; "
        f"the same check as `holdfast doctor {name}`.",
    )
    def doctor(projects: dg.ResourceParam[ProjectResource]) -> dg.AssetCheckResult:
        with dagster_errors(), projects.open() as project:
            return judge(diagnose_stream(project, name).findings)

    return [doctor]


def judge(findings: Sequence[Finding]) -> dg.AssetCheckResult:
    """Pass without findings or with notes only; a critical finding is an error, any other a warning."""
    severity = worst_severity(findings)
    critical = severity is Severity.CRITICAL
    return dg.AssetCheckResult(
        passed=severity in (None, Severity.NOTE),
        severity=dg.AssetCheckSeverity.ERROR if critical else dg.AssetCheckSeverity.WARN,
        description=f"{findings[0].place}: {findings[0].kind.sentence}" if findings else "all well",
        metadata={"findings": _table(findings), "finding_count": len(findings)},
    )


def _table(findings: Sequence[Finding]) -> dg.TableMetadataValue:
    names = ("severity", "what", "where", "evidence", "repairs")
    rows = [
        dg.TableRecord(
            {
                "severity": finding.severity.value,
                "what": finding.kind.value,
                "where": finding.place,
                "evidence": finding.evidence,
                "repairs": ", ".join(
                    [
                        *(repair.kind.value for repair in finding.repairs),
                        *(advice.command for advice in finding.advice),
                    ]
                ),
            }
        )
        for finding in findings
    ]
    schema = dg.TableSchema(columns=[dg.TableColumn(name, "string") for name in names])
    return dg.MetadataValue.table(rows, schema)
