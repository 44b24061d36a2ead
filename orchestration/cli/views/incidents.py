"""Incidents as a table, for `holdfast incidents` and `holdfast status`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from holdfast.orchestration.cli import format as fmt

if TYPE_CHECKING:
    from holdfast.resources.control_store.records import Incident

COLUMNS = ("incident", "stream", "kind", "opened", "state", "lasted", "tries", "outcome")


def incident_table(incidents: "Sequence[Incident]", now: float) -> Table:
    """One row per incident; an open one shows its reason as the outcome."""
    table = Table(box=None, pad_edge=False)
    for column in COLUMNS:
        table.add_column(column, overflow="fold")
    for incident in incidents:
        is_open = incident.closed_at is None
        lasted = (now if incident.closed_at is None else incident.closed_at) - incident.opened_at
        table.add_row(
            incident.id[:8],
            escape(incident.stream),
            incident.kind,
            f"{fmt.age(now - incident.opened_at)} ago",
            f"[red]{incident.state}[/red]" if is_open else str(incident.state),
            fmt.seconds(lasted),
            str(incident.attempts),
            escape(incident.outcome or incident.reason),
        )
    return table
