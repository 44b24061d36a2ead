"""`holdfast costs`: what the streams' fault tolerance cost, day by day or in all."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from holdfast.orchestration.cli import format as words
from holdfast.orchestration.cli.terminal import NOTE, JsonOption, chosen, terminal

if TYPE_CHECKING:
    from holdfast.ft_policies.costs.report import CostRow


def add_to(app: typer.Typer) -> None:
    """Give the command line this command."""
    app.command(
        epilog="Examples:  holdfast costs  ·  holdfast costs word_count --days 7  ·  "
        "holdfast costs --day 2026-11-15 --json"
    )(costs)


def costs(
    ctx: typer.Context,
    *,
    streams: Annotated[
        list[str] | None,
        typer.Argument(metavar="STREAM...", show_default=False, help="Only these."),
    ] = None,
    day: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], help="This day (UTC). Default: today so far."),
    ] = None,
    days: Annotated[
        int | None, typer.Option(min=1, help="So many days in all, today included.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show time by tier and what it cost, against always active and always passive replication."""
    from holdfast.ft_policies.costs.report import added_up
    from holdfast.observation.reports.costs import read_costs

    if day is not None and days is not None:
        raise typer.BadParameter("say either --day or --days")
    tell = terminal(ctx)
    with tell.world() as world:
        names = chosen(world.config, streams or [])
        today = datetime.fromtimestamp(world.store.now(), UTC).date()
        asked = [day.date()] if day is not None else _last(today, days or 1)
        rows = [row for one in asked for row in read_costs(world, one, names)]
    found = [added_up(group) for group in _grouped(rows)]
    if as_json:
        tell.json({"days": [str(one) for one in asked], "streams": [one.cells() for one in found]})
    elif not found:
        tell.out.print(f"{NOTE} no stream ran {_period(asked)}")
    else:
        tell.out.print(f"[bold]fault tolerance {_period(asked)}[/bold]")
        tell.out.print(table(found))


def table(rows: "Sequence[CostRow]") -> Table:
    """One line a stream, and one for all if there are several."""
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    shown.add_column("stream", overflow="fold")
    shown.add_column("ran", justify="right")
    shown.add_column("of that in")
    for name in ("spent", "always active", "always passive", "saved", "unit hours", "missed"):
        shown.add_column(name, justify="right")
    for row in rows:
        shown.add_row(escape(row.stream), *_cells(row))
    for currency in sorted({row.currency for row in rows}) if len(rows) > 1 else []:
        alike = [row for row in rows if row.currency == currency]
        shown.add_row("[bold]all[/bold]", "", "", *_money(alike), end_section=True)
    return shown


def _cells(row: "CostRow") -> list[str]:
    objective = f"[dim]of {row.recoveries}, over {row.objective_seconds:g} s[/dim]"
    missed = f"[red]{row.misses}[/red]" if row.misses else "0"
    return [
        words.age(row.ran_seconds),
        words.tiers({tier: row.share(tier) for tier in row.tier_seconds}),
        *_money([row]),
        f"{row.unit_hours:.2f}\n[dim]of {row.unit_hours_if_active:.2f}[/dim]",
        f"{missed}\n{objective}" if row.recoveries else words.NONE,
    ]


def _money(rows: "Sequence[CostRow]") -> list[str]:
    spent = sum(row.money for row in rows)
    active = sum(row.money_if_active for row in rows)
    passive = sum(row.money_if_passive for row in rows)
    currency = rows[0].currency
    return [
        *(f"{words.money(amount)} {currency}" for amount in (spent, active, passive)),
        words.share(1.0 - spent / active) if active else words.NONE,
    ]


def _grouped(rows: "Sequence[CostRow]") -> "list[list[CostRow]]":
    """The days of each stream; amounts in two currencies are not added up."""
    groups: dict[tuple[str, str], list[CostRow]] = {}
    for row in rows:
        groups.setdefault((row.stream, row.currency), []).append(row)
    return list(groups.values())


def _last(today: date, days: int) -> list[date]:
    return [today - timedelta(days=back) for back in reversed(range(days))]


def _period(days: Sequence[date]) -> str:
    return f"on {days[0]} (UTC)" if len(days) == 1 else f"from {days[0]} to {days[-1]} (UTC)"
