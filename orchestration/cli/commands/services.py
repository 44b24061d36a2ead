"""`holdfast up` and `holdfast down`: the services of a project and its streams, all at once."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.orchestration.cli import format as words
from holdfast.orchestration.cli.commands.streams import Patience, stopping
from holdfast.orchestration.cli.playbook import PlaybookOutcome, run_for_streams
from holdfast.orchestration.cli.terminal import DONE, NOTE, JsonOption, Terminal, chosen, terminal

if TYPE_CHECKING:
    from holdfast.resources.project import Project


def add_to(app: typer.Typer) -> None:
    """Give the command line these commands."""
    app.command(epilog="Examples:  holdfast up  ·  holdfast up word_count --port 3001")(up)
    app.command(epilog="Examples:  holdfast down  ·  holdfast down --keep-streams")(down)


def up(
    ctx: typer.Context,
    *,
    streams: Annotated[
        list[str] | None,
        typer.Argument(metavar="STREAM...", show_default=False, help="Default: all declared."),
    ] = None,
    no_streams: Annotated[
        bool, typer.Option("--no-streams", help="Only the object store and Dagster.")
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Of the Dagster UI, instead of the configured one."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Start the embedded object store, Dagster (UI and daemon) and the declared streams.

    What runs already is found and left alone, so it may be called again at any time.
    """
    from holdfast.orchestration.playbooks.recover import Start

    tell = terminal(ctx)
    with tell.world() as world:
        names = [] if no_streams else chosen(world.config, streams or [])
        facts = {
            "object_store": start_object_store(world, tell, quiet=as_json),
            "dagster": start_dagster(world, tell, port=port, quiet=as_json),
        }
        console = None if as_json else tell.out
        outcomes = run_for_streams(world, names, Start, console, nothing_to_do="runs already")
    _finish(tell, facts, outcomes, as_json=as_json)


def down(
    ctx: typer.Context,
    *,
    keep_streams: Annotated[
        bool,
        typer.Option(
            "--keep-streams", help="Stop Dagster only; the streams and their object store go on."
        ),
    ] = False,
    patience: Patience = 90.0,
    as_json: JsonOption = False,
) -> None:
    """Stop the streams gracefully, then Dagster, then the embedded object store."""
    tell = terminal(ctx)
    with tell.world() as world:
        outcomes: list[PlaybookOutcome] = []
        if not keep_streams:
            console = None if as_json else tell.out
            names = [s.name for s in world.store.streams.all() if s.name in world.config.streams]
            outcomes = run_for_streams(
                world, names, stopping(patience), console, nothing_to_do="does not run"
            )
        _tell_forgotten(world, tell)
        facts: dict[str, Any] = {"dagster": stop_dagster(world, tell, quiet=as_json)}
        if not keep_streams and not any(one.error for one in outcomes):
            facts["object_store"] = stop_object_store(world, tell, quiet=as_json)
    _finish(tell, facts, outcomes, as_json=as_json)


def start_object_store(world: "Project", tell: Terminal, *, quiet: bool) -> dict[str, Any]:
    """Start the embedded object store if the project uses it."""
    embedded = world.embedded_s3()
    if embedded is None:
        return {"kind": "s3", "endpoint": None, "started": False}
    was_there = embedded.alive()
    with tell.working("starting the object store"):
        endpoint = embedded.ensure().endpoint_url
    if not quiet:
        tell.out.print(f"{DONE} object store  {endpoint} [dim]({_how(was_there)})[/dim]")
    return {"kind": "embedded", "endpoint": endpoint, "started": not was_there}


def start_dagster(
    world: "Project", tell: Terminal, *, port: int | None, quiet: bool
) -> dict[str, Any]:
    """Start Dagster and wait until it is well."""
    from holdfast.orchestration.services.dagster import DagsterServer
    from holdfast.resources.clock import SYSTEM_CLOCK

    server = DagsterServer(world.config)
    was_there = server.find() is not None
    began = SYSTEM_CLOCK.monotonic()
    with tell.working("starting Dagster") as change:
        running = server.ensure(
            port=port, tell=lambda waits: change(f"starting Dagster: waiting for {waits}")
        )
    took = SYSTEM_CLOCK.monotonic() - began
    if not quiet:
        how = "runs already" if was_there else f"started in {words.seconds(took)}"
        tell.out.print(f"{DONE} Dagster  {running.url} [dim]({how})[/dim]")
    if was_there and port is not None and port != running.port and not quiet:
        tell.out.print(f"{NOTE} it stays on port {running.port}: `holdfast down` first to move it")
    return {"url": running.url, "pid": running.pid, "started": not was_there, "seconds": took}


def stop_dagster(world: "Project", tell: Terminal, *, quiet: bool) -> dict[str, Any]:
    """End Dagster with all its processes."""
    from holdfast.orchestration.services.dagster import DagsterServer

    with tell.working("stopping Dagster"):
        stopped = DagsterServer(world.config).stop()
    if not quiet:
        tell.out.print(f"{DONE} Dagster  {_ended(stopped)}")
    return {"stopped": stopped}


def stop_object_store(world: "Project", tell: Terminal, *, quiet: bool) -> dict[str, Any]:
    """End the embedded object store."""
    embedded = world.embedded_s3()
    if embedded is None:
        return {"stopped": False}
    stopped = embedded.stop()
    if not quiet:
        tell.out.print(f"{DONE} object store  {_ended(stopped)}")
    return {"stopped": stopped}


def _tell_forgotten(world: "Project", tell: Terminal) -> None:
    """Name the streams that still run although nobody declares them any more."""
    for row in world.store.streams.all():
        if row.name not in world.config.streams and world.store.replicas.of(row.name):
            tell.err.print(
                f"{NOTE} {row.name} still runs and is not declared any more: "
                "bring its file back to stop it"
            )


def _how(was_there: bool) -> str:  # noqa: FBT001
    return "runs already" if was_there else "started"


def _ended(stopped: bool) -> str:  # noqa: FBT001
    return "stopped" if stopped else "did not run"


def _finish(
    tell: Terminal, facts: dict[str, Any], outcomes: list[PlaybookOutcome], *, as_json: bool
) -> None:
    if as_json:
        tell.json({**facts, "streams": [one.as_dict() for one in outcomes]})
    raise typer.Exit(1 if any(one.error for one in outcomes) else 0)
