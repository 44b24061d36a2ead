"""`holdfast what-if`: what other objectives would cost a stream."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from holdfast.orchestration.cli import format as fmt
from holdfast.orchestration.cli.terminal import DONE, JsonOption, Stream, terminal

if TYPE_CHECKING:
    from holdfast.ft_policies.tiering.decision import WhatIf

OBJECTIVES = "0,1,2,3,5,7,10,15,20,30,45,60"


def register(app: typer.Typer) -> None:
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
        typer.Option(metavar="FILE", dir_okay=False, help="Also draw the curve as PNG."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the tier that each objective needs at the current load, and its cost per hour."""
    from holdfast.observation.reports.what_if import currency_of, what_if_cells
    from holdfast.observation.review import Reviewer

    seconds = fmt.parse_seconds(objectives, "--objectives")
    if plot is not None:
        fmt.require_suffix(plot, ".png")
    term = terminal(ctx)
    with term.open_project() as project:
        project.config.stream(stream)
        points = Reviewer().what_if(project, stream, seconds)
        currency = currency_of(project, stream)
    if plot is not None:
        _draw(plot, stream, points, currency)
    if as_json:
        term.json({"stream": stream, "objectives": what_if_cells(points, currency=currency)})
        return
    term.out.print(what_if_table(points, currency))
    if plot is not None:
        term.out.print(f"{DONE} drawn: {plot}", soft_wrap=True)


def what_if_table(points: "Sequence[WhatIf]", currency: str) -> Table:
    """One row per objective."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("objective", justify="right")
    table.add_column("tier")
    for name in ("predicted", f"{currency}/h", "units", "snapshots", "syncs"):
        table.add_column(name, justify="right")
    for point in points:
        table.add_row(
            f"{point.objective_seconds:g} s",
            str(point.tier) if point.holds else f"[yellow]{point.tier}, too slow[/yellow]",
            fmt.prediction(point.seconds),
            fmt.money(point.money_per_hour),
            fmt.number(point.weighted),
            fmt.interval(point.snapshot_every),
            fmt.interval(point.sync_every),
        )
    return table


def _draw(path: Path, stream: str, points: "Sequence[WhatIf]", currency: str) -> None:
    from holdfast.assets.reports.plots import draw_what_if

    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(draw_what_if({stream: points}, currency, "What an objective costs"))
