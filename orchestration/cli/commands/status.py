"""`holdfast status`: how the streams are, once or for as long as somebody watches."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from orchestration.cli import words
from orchestration.cli.commands.incidents import table as incident_table
from orchestration.cli.terminal import JsonOption, OnlyStream, chosen, terminal

if TYPE_CHECKING:
    from orchestration.cli.facts import ReplicaFacts, StreamFacts
    from streaming.world import World

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
    """Show each stream: health, replicas, epochs, lag, rate, state, last snapshot, objective."""
    tell = terminal(ctx)
    with tell.world() as world:
        names = chosen(world.project, [] if stream is None else [stream])
        if as_json:
            from orchestration.cli.facts import look

            facts = [look(world, name) for name in names]
            tell.json({"at": world.store.now(), "streams": facts})
        elif watch and tell.out.is_terminal:
            _watch(world, names)
        else:
            tell.out.print(_view(world, names))


def _watch(world: "World", names: list[str]) -> None:
    from resources.clock import SYSTEM_CLOCK

    with Live(auto_refresh=False, screen=False) as live:
        try:
            while True:
                live.update(_view(world, names), refresh=True)
                SYSTEM_CLOCK.sleep(REFRESH_SECONDS)
        except KeyboardInterrupt:
            return


def _view(world: "World", names: list[str]) -> RenderableType:
    from orchestration.cli.facts import look

    return view([look(world, name) for name in names], now=world.store.now())


def view(streams: "list[StreamFacts]", *, now: float) -> RenderableType:
    """The table of streams, and below it what is wrong."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("stream")
    table.add_column("health")
    for name in ("epoch", "lag", "rate", "state"):
        table.add_column(name, justify="right")
    table.add_column("last snapshot")
    table.add_column("replicas")
    for facts in streams:
        table.add_row(*_cells(facts))
    below: list[RenderableType] = [
        f"[dim]{escape(f.stream)}:[/dim] {escape(f.reason)}"
        for f in streams
        if f.health not in WELL
    ]
    incidents = [incident for facts in streams for incident in facts.incidents]
    if incidents:
        below += ["", "[bold]open incidents[/bold]", incident_table(incidents, now)]
    return Group(table, *below)


def _cells(facts: "StreamFacts") -> list[str]:
    objective = f"{facts.tier}\nback in {facts.recovery_time_seconds:g} s, {facts.guarantee}"
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
        "\n".join(_replica(replica) for replica in facts.replicas) or words.NONE,
    ]


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


def _replica(replica: "ReplicaFacts") -> str:
    where = "not started" if replica.pid is None else f"pid {replica.pid}"
    line = f"{escape(replica.id)}\n[dim]{replica.slot}, {replica.state}, {where}[/dim]"
    if replica.desired == replica.observed:
        return line
    wanted, has = ", ".join(replica.desired) or "none", ", ".join(replica.observed) or "none"
    return f"{line}\n[yellow]on: {has}; wanted: {wanted}[/yellow]"
