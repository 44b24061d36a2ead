"""`holdfast incidents`: what went wrong, what was done about it, and that it was seen to."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from holdfast.orchestration.cli import format as words
from holdfast.orchestration.cli.terminal import DONE, JsonOption, OnlyStream, terminal

if TYPE_CHECKING:
    from holdfast.resources.control_store.records import Incident


def add_to(app: typer.Typer) -> None:
    """Give the command line this command."""
    app.command(
        epilog="Examples:  holdfast incidents word_count --open  ·  "
        'holdfast incidents --close 1f0c9a2e --why "the clock is out of build"'
    )(incidents)


def incidents(
    ctx: typer.Context,
    *,
    stream: OnlyStream = None,
    open_only: Annotated[bool, typer.Option("--open", help="Only those that are open.")] = False,
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="At most so many, newest first.")
    ] = 20,
    closed: Annotated[
        str | None,
        typer.Option(
            "--close",
            metavar="ID",
            show_default=False,
            help="Close this one, which needs --why; only a kind that nobody else closes.",
        ),
    ] = None,
    why: Annotated[
        str | None,
        typer.Option("--why", metavar="TEXT", show_default=False, help="What --close puts down."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List incidents, newest first: what was seen, who deals with it, how it ended."""
    if (closed is None) is not (why is None):
        raise typer.BadParameter("--close ID and --why TEXT go together")
    tell = terminal(ctx)
    with tell.world() as world:
        if stream is not None:
            world.config.stream(stream)
        if closed is not None and why is not None:
            from holdfast.orchestration.cli.closing import close

            found = [close(world, stream, closed, why=why)]
        else:
            found = world.store.incidents.of(stream, open_only=open_only)[:limit]
        now = world.store.now()
    if as_json:
        tell.json({"incidents": [asdict(one) for one in found]})
    elif not found:
        tell.out.print(f"{DONE} no {'open ' if open_only else ''}incident")
    else:
        tell.out.print(table(found, now))


def table(found: "list[Incident]", now: float) -> Table:
    """Incidents as a table."""
    shown = Table(box=None, pad_edge=False)
    for column in ("incident", "stream", "kind", "opened", "state", "lasted", "tries", "outcome"):
        shown.add_column(column, overflow="fold")
    for one in found:
        lasted = (now if one.closed_at is None else one.closed_at) - one.opened_at
        shown.add_row(
            one.id[:8],
            escape(one.stream),
            one.kind,
            f"{words.age(now - one.opened_at)} ago",
            f"[red]{one.state}[/red]" if one.closed_at is None else str(one.state),
            words.seconds(lasted),
            str(one.attempts),
            escape(one.outcome or str(one.detail.get("reason", ""))),
        )
    return shown
