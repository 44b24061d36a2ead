"""`holdfast demo`: a stream, a killed driver, a recovery, and the proof that nothing was lost."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.orchestration.cli.terminal import JsonOption, terminal


def add_to(app: typer.Typer) -> None:
    """Give the command line this command."""
    app.command(epilog="Examples:  holdfast demo  ·  holdfast demo --keep --folder /tmp/demo")(demo)


def demo(
    ctx: typer.Context,
    *,
    folder: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where to play; it must not exist. Default: temporary."),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the folder: tables, logs, snapshots.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Kill a driver with -9 and see the stream come back, in about three minutes.

    Everything runs in a folder of its own on embedded defaults, and nothing is left running.
    Leaves with 0 only if the output equals a batch recomputation: rows, digest, each epoch once.
    """
    from holdfast.orchestration.cli.demo.story import play

    tell = terminal(ctx)
    holds = play(tell, folder=folder, keep=keep, as_json=as_json)
    raise typer.Exit(0 if holds else 1)
