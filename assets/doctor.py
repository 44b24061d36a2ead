"""The doctor as an asset check: what is wrong with a stream beyond how it runs."""

from collections.abc import Sequence

import dagster as dg

from holdfast.assets.keys import stream_key
from holdfast.assets.project_resource import Worlds, explained
from holdfast.configs.stream import StreamDeclaration
from holdfast.ft_policies.doctor.findings import Finding, Severity, worst
from holdfast.observation.doctor.examine import diagnosed

DOCTOR = "doctor"


def checks(declared: StreamDeclaration) -> list[dg.AssetChecksDefinition]:
    """The claim that a stream is whole."""
    name = declared.name

    @dg.asset_check(
        asset=stream_key(name),
        name=DOCTOR,
        description="Checkpoint, snapshots, epoch log, ledger, output table and source are whole and agree; "
        f"what `holdfast doctor {name}` says.",
    )
    def doctor(worlds: dg.ResourceParam[Worlds]) -> dg.AssetCheckResult:
        with explained(), worlds.open() as world:
            return judge(diagnosed(world, name).findings)

    return [doctor]


def judge(found: Sequence[Finding]) -> dg.AssetCheckResult:
    """Notes pass, warnings warn, and what is critical is an error."""
    severity = worst(found)
    critical = severity is Severity.CRITICAL
    return dg.AssetCheckResult(
        passed=severity in (None, Severity.NOTE),
        severity=dg.AssetCheckSeverity.ERROR if critical else dg.AssetCheckSeverity.WARN,
        description=f"{found[0].place}: {found[0].kind.told}" if found else "all well",
        metadata={"findings": _table(found), "finding_count": len(found)},
    )


def _table(found: Sequence[Finding]) -> dg.TableMetadataValue:
    names = ("severity", "what", "where", "evidence", "repairs")
    rows = [
        dg.TableRecord(
            {
                "severity": one.severity.value,
                "what": one.kind.value,
                "where": one.place,
                "evidence": one.evidence,
                "repairs": ", ".join(
                    [
                        *(repair.kind.value for repair in one.repairs),
                        *(advice.command for advice in one.advice),
                    ]
                ),
            }
        )
        for one in found
    ]
    schema = dg.TableSchema(columns=[dg.TableColumn(name, "string") for name in names])
    return dg.MetadataValue.table(rows, schema)
