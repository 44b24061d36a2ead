"""`holdfast costs`: what the streams' fault tolerance cost."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from holdfast.orchestration.cli import format as fmt
from holdfast.orchestration.cli.terminal import NOTE, JsonOption, select_streams, terminal

if TYPE_CHECKING:
    from holdfast.ft_policies.costs.report import CostRow


def register(app: typer.Typer) -> None:
    app.command(
        epilog="Examples:  holdfast costs  ·  holdfast costs word_count --days 7  ·  "
        "holdfast costs --day 2026-11-15 --json"
    )(costs)


def costs(
    ctx: typer.Context,
    *,
    streams: Annotated[
        list[str] | None,
        typer.Argument(metavar="STREAM...", show_default=False, help="Only these streams."),
    ] = None,
    day: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], help="The day (UTC). Default: today so far."),
    ] = None,
    days: Annotated[
        int | None,
        typer.Option(
            min=1, max=3660, help="The last N days in total, including today.", metavar="N"
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show time in each tier and costs, compared with permanent active and passive replication."""
    from holdfast.ft_policies.costs.report import add_up_rows
    from holdfast.observation.reports.costs import read_costs

    if day is not None and days is not None:
        raise typer.BadParameter("give either --day or --days")
    if day is not None and not 1970 <= day.year < 2200:
        raise typer.BadParameter("--day must be from 1970 to 2199")
    term = terminal(ctx)
    with term.open_project() as project:
        names = select_streams(project.config, streams or [])
        today = datetime.fromtimestamp(project.store.now(), UTC).date()
        period = [day.date()] if day is not None else _last_days(today, days or 1)
        rows = [row for date in period for row in read_costs(project, date, names)]
    totals = [add_up_rows(group) for group in _group_by_stream(rows)]
    if as_json:
        term.json(
            {"days": [str(date) for date in period], "streams": [row.cells() for row in totals]}
        )
    elif not totals:
        term.out.print(f"{NOTE} no stream ran {_describe_period(period)}")
    else:
        term.out.print(f"[bold]fault tolerance {_describe_period(period)}[/bold]")
        term.out.print(cost_table(totals))


def cost_table(rows: "Sequence[CostRow]") -> Table:
    """One row per stream, and one for all if there are several."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("stream", overflow="fold")
    table.add_column("ran", justify="right")
    table.add_column("in tier")
    for name in ("spent", "always active", "always passive", "saved", "unit hours", "missed"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(escape(row.stream), *_cells(row))
    for currency in sorted({row.currency for row in rows}) if len(rows) > 1 else []:
        in_currency = [row for row in rows if row.currency == currency]
        table.add_row("[bold]all[/bold]", "", "", *_money(in_currency), end_section=True)
    return table


def _cells(row: "CostRow") -> list[str]:
    objective = f"[dim]of {row.recoveries}, over {row.objective_seconds:g} s[/dim]"
    missed = f"[red]{row.misses}[/red]" if row.misses else "0"
    return [
        fmt.age(row.ran_seconds),
        fmt.tiers({tier: row.share(tier) for tier in row.tier_seconds}),
        *_money([row]),
        f"{fmt.number(row.unit_hours)}\n[dim]of {fmt.number(row.unit_hours_if_active)}[/dim]",
        f"{missed}\n{objective}" if row.recoveries else fmt.NONE,
    ]


def _money(rows: "Sequence[CostRow]") -> list[str]:
    spent = sum(row.money for row in rows)
    active = sum(row.money_if_active for row in rows)
    passive = sum(row.money_if_passive for row in rows)
    currency = rows[0].currency
    return [
        *(f"{fmt.money(amount)} {currency}" for amount in (spent, active, passive)),
        fmt.share(1.0 - spent / active) if active else fmt.NONE,
    ]


def _group_by_stream(rows: "Sequence[CostRow]") -> "list[list[CostRow]]":
    """Group the days by stream and currency: amounts in two currencies cannot be added up."""
    groups: dict[tuple[str, str], list[CostRow]] = {}
    for row in rows:
        groups.setdefault((row.stream, row.currency), []).append(row)
    return list(groups.values())


def _last_days(today: date, days: int) -> list[date]:
    return [today - timedelta(days=back) for back in reversed(range(days))]


def _describe_period(days: Sequence[date]) -> str:
    return f"on {days[0]} (UTC)" if len(days) == 1 else f"from {days[0]} to {days[-1]} (UTC)"
