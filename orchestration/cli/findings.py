"""What the doctor has found, as people read it."""

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from holdfast.ft_policies.doctor.findings import Advice, Cost, Finding, Repair, Severity
from holdfast.orchestration.cli import format as words

COLOURS = {Severity.NOTE: "dim", Severity.WARNING: "yellow", Severity.CRITICAL: "red"}


def findings_table(found: Sequence[Finding]) -> Table:
    """Each finding: how bad, what, where and how one sees it; below it its repairs, the best first."""
    table = Table("severity", "what, where, evidence, repairs", box=None, pad_edge=False)
    for one in found:
        colour = COLOURS[one.severity]
        severity = f"[{colour}]{one.severity}[/{colour}]"
        table.add_row(severity, f"[bold]{one.kind}[/bold]  {escape(one.place)}")
        table.add_row("", escape(one.evidence))
        for repair in one.repairs:
            table.add_row("", _told(repair))
        for advice in one.advice:
            table.add_row("", _advised(advice))
    return table


def _advised(advice: Advice) -> str:
    return (
        f"→ run [bold]{escape(advice.command)}[/bold]: {escape(advice.does)}\n"
        f"  [dim]{cost_told(advice.cost)}[/dim]"
    )


def _told(repair: Repair) -> str:
    return (
        f"→ [bold]{repair.kind}[/bold] {escape(repair.does)}\n"
        f"  [dim]{cost_told(repair.cost)}; undo: {escape(repair.undo)}[/dim]"
    )


def cost_told(cost: Cost) -> str:
    """`replays 12 epochs, 4,000 rows, about 3.1 s; nothing is lost`."""
    parts = []
    if cost.epochs_replayed:
        told = "unknown time" if cost.seconds is None else f"about {words.seconds(cost.seconds)}"
        epochs = words.plural(cost.epochs_replayed, "epoch")
        parts.append(f"replays {epochs}, {words.plural(cost.rows_replayed, 'row')}, {told}")
    if cost.epochs_skipped or cost.rows_lost:
        lost = words.plural(cost.rows_lost, "row")
        parts.append(f"skips {words.plural(cost.epochs_skipped, 'epoch')}, {lost} lost")
    else:
        parts.append("nothing is lost")
    return "; ".join(parts)
