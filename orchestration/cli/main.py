"""The command `holdfast`.

Only what the help needs is imported here: a command imports its world when it runs.
"""

from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from holdfast.ft_policies.errors import HoldfastError
from holdfast.orchestration.cli.commands import (
    check,
    costs,
    demo,
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
    what_if,
)
from holdfast.orchestration.cli.terminal import INTERRUPTED, Terminal, terminal


class Commands(TyperGroup):
    """Our own errors are told in two lines; a traceback is for bugs, or for `--debug`."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
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
    help="Holds Spark streams to a recovery objective at the least cost.",
    epilog="Examples:  holdfast demo  ·  holdfast check  ·  holdfast up  ·  holdfast status --watch",
)


def _version(asked: bool) -> None:  # noqa: FBT001 - typer calls it so
    if asked:
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
            help="The project's folder. Default: the nearest one upwards with configs/streams.",
        ),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    ctx.obj = Terminal(project_folder=project, debug=debug)


check.add_to(app)
services.add_to(app)
streams.add_to(app)
switch.add_to(app)
migrate.add_to(app)
restore.add_to(app)
status.add_to(app)
logs.add_to(app)
incidents.add_to(app)
drill.add_to(app)
doctor.add_to(app)
explain.add_to(app)
what_if.add_to(app)
costs.add_to(app)
simulate.add_to(app)
app.add_typer(snapshots.app, name="snapshots")
demo.add_to(app)


def main() -> None:
    """Run the command line; leaves with 0 (done), 1 (failed) or 2 (wrong usage), `doctor` also with 3 or 4."""
    app()
