"""The doctor's findings as a table."""

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from holdfast.ft_policies.doctor.findings import Advice, Cost, Finding, Repair, Severity
from holdfast.orchestration.cli import format as fmt

COLOURS = {Severity.NOTE: "dim", Severity.WARNING: "yellow", Severity.CRITICAL: "red"}


def findings_table(findings: Sequence[Finding]) -> Table:
    """Each finding with severity, kind, place and evidence; below it its repairs, the best first."""
    table = Table("severity", "finding, evidence, repairs", box=None, pad_edge=False)
    for finding in findings:
        colour = COLOURS[finding.severity]
        severity = f"[{colour}]{finding.severity}[/{colour}]"
        table.add_row(severity, f"[bold]{finding.kind}[/bold]  {escape(finding.place)}")
        table.add_row("", escape(finding.evidence))
        for repair in finding.repairs:
            table.add_row("", _describe_repair(repair))
        for advice in finding.advice:
            table.add_row("", _describe_advice(advice))
    return table


def _describe_advice(advice: Advice) -> str:
    return (
        f"→ run [bold]{escape(advice.command)}[/bold]: {escape(advice.does)}\n"
        f"  [dim]{describe_cost(advice.cost)}[/dim]"
    )


def _describe_repair(repair: Repair) -> str:
    return (
        f"→ [bold]{repair.kind}[/bold] {escape(repair.does)}\n"
        f"  [dim]{describe_cost(repair.cost)}; undo: {escape(repair.undo)}[/dim]"
    )


def describe_cost(cost: Cost) -> str:
    """`replays 12 epochs, 4,000 rows, about 3.14 s; loses nothing`."""
    parts = []
    if cost.epochs_replayed:
        time = "unknown time" if cost.seconds is None else f"about {fmt.seconds(cost.seconds)}"
        epochs = fmt.plural(cost.epochs_replayed, "epoch")
        parts.append(f"replays {epochs}, {fmt.plural(cost.rows_replayed, 'row')}, {time}")
    if cost.epochs_skipped or cost.rows_lost:
        lost = fmt.plural(cost.rows_lost, "row")
        parts.append(f"skips {fmt.plural(cost.epochs_skipped, 'epoch')}, loses {lost}")
    else:
        parts.append("loses nothing")
    return "; ".join(parts)
