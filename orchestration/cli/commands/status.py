"""`holdfast status`: how the streams are, once or for as long as somebody watches."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from holdfast.orchestration.cli import format as words
from holdfast.orchestration.cli.commands.incidents import table as incident_table
from holdfast.orchestration.cli.replicas import change_line, history_table, replica_table
from holdfast.orchestration.cli.terminal import JsonOption, OnlyStream, chosen, terminal

if TYPE_CHECKING:
    from holdfast.orchestration.cli.facts import StreamFacts
    from holdfast.resources.project import Project

REFRESH_SECONDS = 1.0
WELL = ("healthy", "stopped")


def add_to(app: typer.Typer) -> None:
    """Give the command line this command."""
    app.command(epilog="Examples:  holdfast status --watch  ·  holdfast status word_count --json")(
        status
    )


def status(
    ctx: typer.Context,
    *,
    stream: OnlyStream = None,
    watch: Annotated[
        bool, typer.Option("--watch/--once", "-w", help="Refresh until Ctrl-C (on a terminal).")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show each stream: health, tier, epochs, lag, rate, state, last snapshot, replicas, changes."""
    tell = terminal(ctx)
    with tell.world() as world:
        names = chosen(world.config, [] if stream is None else [stream])
        if as_json:
            from holdfast.orchestration.cli.facts import look

            facts = [look(world, name) for name in names]
            tell.json({"at": world.store.now(), "streams": facts})
        elif watch and tell.out.is_terminal:
            _watch(world, names)
        else:
            tell.out.print(_view(world, names))


def _watch(world: "Project", names: list[str]) -> None:
    from holdfast.resources.clock import SYSTEM_CLOCK

    with Live(auto_refresh=False, screen=False) as live:
        try:
            while True:
                live.update(_view(world, names), refresh=True)
                SYSTEM_CLOCK.sleep(REFRESH_SECONDS)
        except KeyboardInterrupt:
            return


def _view(world: "Project", names: list[str]) -> RenderableType:
    from holdfast.orchestration.cli.facts import look

    return view([look(world, name) for name in names], now=world.store.now())


def view(streams: "list[StreamFacts]", *, now: float) -> RenderableType:
    """The table of streams, that of their replicas, and below them what is wrong or under way."""
    below: list[RenderableType] = [line for facts in streams for line in _remarks(facts)]
    if any(facts.replicas for facts in streams):
        below = ["", replica_table(streams), *below]
    if len(streams) == 1 and len(streams[0].tier_history) > 1:
        below += ["", "[bold]tier history[/bold]", history_table(streams[0].tier_history, now)]
    incidents = [incident for facts in streams for incident in facts.incidents]
    if incidents:
        below += ["", "[bold]open incidents[/bold]", incident_table(incidents, now)]
    return Group(_stream_table(streams), *below)


def _stream_table(streams: "list[StreamFacts]") -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("stream", overflow="fold")
    table.add_column("health")
    for name in ("epoch", "lag", "rate", "state"):
        table.add_column(name, justify="right")
    table.add_column("last snapshot")
    for facts in streams:
        table.add_row(*_cells(facts))
    return table


def _remarks(facts: "StreamFacts") -> list[str]:
    """What is wrong with a stream, what its tier lacks, and what is being done."""
    name = f"[dim]{escape(facts.stream)}:[/dim]"
    found = [] if facts.health in WELL else [f"{name} {escape(facts.reason)}"]
    if facts.last_restore is not None and facts.last_restore.half_done:
        half = f"is half restored to epoch {facts.last_restore.epoch}"
        again = f"`holdfast restore {escape(facts.stream)}` finishes it"
        found.append(f"{name} [yellow]{half}: {again}[/yellow]")
    if facts.not_rolled_out:
        differs = f"its file says otherwise of {', '.join(facts.not_rolled_out)}"
        found.append(
            f"{name} {differs}: `holdfast migrate {escape(facts.stream)}` brings it, or says why not"
        )
    if not facts.tier_held:
        found.append(f"{name} [yellow]{facts.tier} is wanted, {escape(facts.tier_reason)}[/yellow]")
    return found if facts.change is None else [*found, f"{name} {change_line(facts.change)}"]


def _cells(facts: "StreamFacts") -> list[str]:
    objective = f"{_tier(facts)}\nback in {facts.recovery_time_seconds:g} s, {facts.guarantee}"
    return [
        f"[bold]{escape(facts.stream)}[/bold]\n[dim]{objective}[/dim]",
        _health(facts),
        _pair(facts.epoch_committed, facts.epoch_decided),
        f"{words.plural(facts.lag_epochs, 'epoch')}\n{_rows(facts.lag_rows)}",
        words.NONE
        if facts.rate_rows_per_second is None
        else f"{facts.rate_rows_per_second:,.0f} rows/s",
        f"{_rows(facts.state_rows)}\n[dim]{words.size(facts.state_bytes)}[/dim]",
        _snapshot(facts),
    ]


def _tier(facts: "StreamFacts") -> str:
    if facts.tier_held:
        return facts.tier
    return f"{facts.tier}\n[yellow]covered: {facts.covered_tier}[/yellow]"


def _health(facts: "StreamFacts") -> str:
    colour = {"healthy": "green", "stopped": "dim"}.get(facts.health, "yellow")
    return f"[{'red' if facts.failed else colour}]{facts.health}[/]"


def _pair(committed: int | None, decided: int | None) -> str:
    """Committed, and below it what is decided."""
    if decided is None:
        return words.NONE
    return f"{words.count(committed)}\n[dim]of {decided:,}[/dim]"


def _rows(number: int | None) -> str:
    return words.NONE if number is None else words.plural(number, "row")


def _snapshot(facts: "StreamFacts") -> str:
    if facts.snapshot is None:
        return "none"
    newest = facts.snapshot
    return (
        f"{words.age(newest.age_seconds)} ago\n"
        f"[dim]epoch {newest.epoch:,}, {words.size(newest.total_bytes)}[/dim]"
    )
