"""`holdfast demo`: a stream, a killed driver, a recovery, and the proof that nothing was lost."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.orchestration.cli.terminal import JsonOption, terminal


def register(app: typer.Typer) -> None:
    app.command(epilog="Examples:  holdfast demo  ·  holdfast demo --keep --folder /tmp/demo")(demo)


def demo(
    ctx: typer.Context,
    *,
    folder: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A new folder for the demo. Default: a temporary one."),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the folder with tables, logs and snapshots.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Kill the driver of a stream with -9 and watch its recovery, in about three minutes.

    The demo runs in its own folder with embedded services, and stops everything at the end.
    Exit code 0 only if the output equals a batch recomputation: rows, digest, each epoch once.
    """
    from holdfast.orchestration.cli.demo.story import play

    term = terminal(ctx)
    holds = play(term, folder=folder, keep=keep, as_json=as_json)
    raise typer.Exit(0 if holds else 1)
