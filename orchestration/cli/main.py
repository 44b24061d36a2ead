"""The command `holdfast`.

Only what the help needs is imported here; a command imports the rest when it runs.
"""

from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from holdfast.ft_policies.errors import HoldfastError
from holdfast.orchestration.cli.commands import (
    check,
    costs,
    doctor,
    drill,
    explain,
    incidents,
    logs,
    migrate,
    restore,
    services,
    simulate,
    snapshots,
    status,
    streams,
    switch,
    upkeep,
    what_if,
)
from holdfast.orchestration.cli.demo import command as demo
from holdfast.orchestration.cli.terminal import INTERRUPTED, terminal
from holdfast.resources.private import keep_private


class Commands(TyperGroup):
    """Prints an expected error as message and hint; a traceback is for bugs, or for `--debug`."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; exit code 1 after an expected error, 130 after Ctrl-C."""
        try:
            return super().invoke(ctx)
        except HoldfastError as error:
            if terminal(ctx).debug:
                raise
            terminal(ctx).error(error)
            raise typer.Exit(1) from error
        except KeyboardInterrupt as error:
            terminal(ctx).err.print("interrupted")
            raise typer.Exit(INTERRUPTED) from error


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Hold Spark streams to a recovery objective at the least cost.",
    epilog="Examples:  holdfast demo  ·  holdfast check  ·  holdfast up  ·  holdfast status --watch",
)


def _print_version(requested: bool) -> None:  # noqa: FBT001 - typer calls it so
    if requested:
        typer.echo(f"holdfast {version('holdfast')}")
        raise typer.Exit


@app.callback()
def _root(
    ctx: typer.Context,
    *,
    project: Annotated[
        Path | None,
        typer.Option(
            "--project",
            metavar="DIR",
            envvar="HOLDFAST_PROJECT",
            file_okay=False,
            exists=True,
            help="The project's folder. Default: the nearest parent folder with configs/streams.",
        ),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    ctx.obj = replace(terminal(ctx), project_folder=project, debug=debug)


check.register(app)
services.register(app)
streams.register(app)
switch.register(app)
migrate.register(app)
restore.register(app)
status.register(app)
logs.register(app)
incidents.register(app)
upkeep.register(app)
drill.register(app)
doctor.register(app)
explain.register(app)
what_if.register(app)
costs.register(app)
simulate.register(app)
app.add_typer(snapshots.app, name="snapshots")
demo.register(app)


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 failed, 2 wrong usage; `doctor` also 3 or 4."""
    keep_private()
    app()
