"""What the doctor has found, as people read it."""

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from ft_policies.doctor.findings import Cost, Finding, Severity
from orchestration.cli import words

COLOURS = {Severity.NOTE: "dim", Severity.WARNING: "yellow", Severity.CRITICAL: "red"}


def findings_table(found: Sequence[Finding]) -> Table:
    """Each finding, and below it its repairs, the best first."""
    table = Table(box=None, pad_edge=False)
    for column in ("severity", "what", "where", "evidence"):
        table.add_column(column, overflow="fold")
    for one in found:
        colour = COLOURS[one.severity]
        severity = f"[{colour}]{one.severity}[/{colour}]"
        table.add_row(severity, one.kind, escape(one.place), escape(one.evidence))
        for repair in one.repairs:
            about = f"{repair.does}. Undo: {repair.undo}."
            table.add_row("", f"→ {repair.kind}", cost_told(repair.cost), escape(about))
        if not one.repairs and one.severity is not Severity.NOTE:
            table.add_row("", "→ no repair", "", escape(one.kind.told))
    return table


def cost_told(cost: Cost) -> str:
    """`replays 12 epochs, 4,000 rows, about 3.1 s; nothing is lost`."""
    parts = []
    if cost.epochs_replayed:
        told = "unknown time" if cost.seconds is None else f"about {words.seconds(cost.seconds)}"
        epochs = words.plural(cost.epochs_replayed, "epoch")
        parts.append(f"replays {epochs}, {words.plural(cost.rows_replayed, 'row')}, {told}")
    if cost.epochs_skipped or cost.rows_lost:
        lost = words.plural(cost.rows_lost, "row")
        parts.append(f"skips {words.plural(cost.epochs_skipped, 'epoch')}, {lost} are lost")
    else:
        parts.append("nothing is lost")
    return "; ".join(parts)
