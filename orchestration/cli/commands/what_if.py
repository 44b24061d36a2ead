"""`holdfast what-if`: what other objectives would cost a stream."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from holdfast.orchestration.cli import format as words, reading
from holdfast.orchestration.cli.terminal import DONE, JsonOption, Stream, terminal

if TYPE_CHECKING:
    from holdfast.ft_policies.tiering.decision import WhatIf

OBJECTIVES = "0,1,2,3,5,7,10,15,20,30,45,60"


def add_to(app: typer.Typer) -> None:
    """Give the command line this command."""
    app.command(
        name="what-if", epilog="Example:  holdfast what-if word_count --objectives 0,5,10,30"
    )(what_if)


def what_if(
    ctx: typer.Context,
    *,
    stream: Stream,
    objectives: Annotated[
        str, typer.Option(metavar="SECONDS,…", help="Recovery times to evaluate.")
    ] = OBJECTIVES,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", dir_okay=False, help="Also draw the curve as a PNG file."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show which tier each objective needs at the present load, and what it costs per hour."""
    from holdfast.observation.reports.what_if import currency_of, what_if_cells
    from holdfast.observation.review import Reviewer

    wanted = reading.seconds(objectives, "--objectives")
    if plot is not None:
        reading.demand_ending(plot, ".png")
    tell = terminal(ctx)
    with tell.world() as world:
        world.config.stream(stream)
        points = Reviewer().what_if(world, stream, wanted)
        currency = currency_of(world, stream)
    if plot is not None:
        _draw(plot, stream, points, currency)
    if as_json:
        tell.json({"stream": stream, "objectives": what_if_cells(points, currency=currency)})
        return
    tell.out.print(table(points, currency))
    if plot is not None:
        tell.out.print(f"{DONE} drawn: {plot}", soft_wrap=True)


def table(points: "Sequence[WhatIf]", currency: str) -> Table:
    """One line per objective."""
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    shown.add_column("objective", justify="right")
    shown.add_column("tier")
    for name in ("predicted", f"{currency}/h", "units", "snapshots", "syncs"):
        shown.add_column(name, justify="right")
    for point in points:
        shown.add_row(
            f"{point.objective_seconds:g} s",
            str(point.tier) if point.holds else f"[yellow]{point.tier}, too slow[/yellow]",
            words.predicted(point.seconds),
            words.money(point.money_per_hour),
            f"{point.weighted:.2f}",
            words.interval(point.snapshot_every),
            words.interval(point.sync_every),
        )
    return shown


def _draw(path: Path, stream: str, points: "Sequence[WhatIf]", currency: str) -> None:
    from holdfast.assets.reports.plots import draw_what_if

    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(draw_what_if({stream: points}, currency, "What an objective costs"))
