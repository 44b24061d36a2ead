"""`holdfast up`, `down` and `open`: start, stop and show the services of a project with its streams."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.ft_policies.timings import LEAVE_WITHIN_SECONDS
from holdfast.orchestration.cli import format as fmt
from holdfast.orchestration.cli.commands.streams import Patience, build_stop
from holdfast.orchestration.cli.playbook import PlaybookOutcome, run_for_streams
from holdfast.orchestration.cli.terminal import (
    DONE,
    NOTE,
    JsonOption,
    Terminal,
    select_streams,
    terminal,
)

if TYPE_CHECKING:
    from holdfast.resources.project import Project


def register(app: typer.Typer) -> None:
    app.command(epilog="Examples:  holdfast up  ·  holdfast up word_count --port 3001")(up)
    app.command(epilog="Examples:  holdfast down  ·  holdfast down --keep-streams")(down)
    app.command("open", epilog="Examples:  holdfast open  ·  holdfast open --print")(open_ui)


def up(
    ctx: typer.Context,
    *,
    streams: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="STREAM...", show_default=False, help="Default: all declared streams."
        ),
    ] = None,
    no_streams: Annotated[
        bool, typer.Option("--no-streams", help="Start only the object store and Dagster.")
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port of the Dagster UI. Default: as configured."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Start the embedded object store, Dagster (UI and daemon) and the declared streams.

    What runs already is left alone: the command may be repeated at any time.
    """
    from holdfast.orchestration.playbooks.recover import Start
    from holdfast.resources.local_folders import require_home
    from holdfast.resources.private import tighten

    term = terminal(ctx)
    with term.open_project() as project:
        names = [] if no_streams else select_streams(project.config, streams or [])
        tighten(project.config.home)
        for stream in project.config.streams.values():
            require_home(project.config, project.store, stream)
        facts = {
            "object_store": start_object_store(project, term, quiet=as_json),
            "dagster": start_dagster(project, term, port=port, quiet=as_json),
        }
        console = None if as_json else term.out
        outcomes = run_for_streams(
            project, names, Start, console, nothing_to_do="is already running"
        )
    _finish(term, facts, outcomes, as_json=as_json)


def down(
    ctx: typer.Context,
    *,
    keep_streams: Annotated[
        bool,
        typer.Option(
            "--keep-streams", help="Stop only Dagster; streams and object store keep running."
        ),
    ] = False,
    patience: Patience = LEAVE_WITHIN_SECONDS,
    as_json: JsonOption = False,
) -> None:
    """Stop the streams gracefully, then Dagster, then the embedded object store."""
    term = terminal(ctx)
    with term.open_project() as project:
        outcomes: list[PlaybookOutcome] = []
        if not keep_streams:
            console = None if as_json else term.out
            names = [
                s.name for s in project.store.streams.all() if s.name in project.config.streams
            ]
            outcomes = run_for_streams(
                project, names, build_stop(patience), console, nothing_to_do="is not running"
            )
        _warn_undeclared(project, term)
        facts: dict[str, Any] = {"dagster": stop_dagster(project, term, quiet=as_json)}
        if not keep_streams and not any(outcome.error for outcome in outcomes):
            facts["object_store"] = stop_object_store(project, term, quiet=as_json)
    _finish(term, facts, outcomes, as_json=as_json)


def open_ui(
    ctx: typer.Context,
    *,
    only_print: Annotated[
        bool, typer.Option("--print", help="Print the address with the token, open no browser.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Open the Dagster UI in a browser and sign in with the token of this project."""
    from holdfast.ft_policies.errors import PermanentError
    from holdfast.orchestration.services.dagster import DagsterServer

    term = terminal(ctx)
    with term.open_project() as project:
        server = DagsterServer(project.config)
    running = server.find()
    if running is None:
        raise PermanentError("Dagster is not running", hint="run `holdfast up`")
    if as_json:
        term.json({"url": server.sign_in_url(running)})
    elif only_print or not _open_browser(server.write_sign_in_page(running)):
        term.out.print(server.sign_in_url(running), soft_wrap=True)
    else:
        term.out.print(f"{DONE} opened {running.url}")


def _open_browser(page: Path) -> bool:
    """Open a private file instead of the address: every user sees the arguments of a browser's process."""
    import webbrowser

    return webbrowser.open(page.as_uri())


def start_object_store(project: "Project", term: Terminal, *, quiet: bool) -> dict[str, Any]:
    """Start the embedded object store if the project uses it; create the bucket of another one."""
    embedded = project.embedded_s3()
    if embedded is None:
        project.ensure_bucket()
        return {"kind": "s3", "endpoint": None, "started": False}
    was_running = embedded.alive()
    with term.spinner("starting the object store"):
        endpoint = embedded.ensure().endpoint_url
    if not quiet:
        term.out.print(
            f"{DONE} object store  {endpoint} [dim]({_describe_start(was_running)})[/dim]"
        )
    return {"kind": "embedded", "endpoint": endpoint, "started": not was_running}


def start_dagster(
    project: "Project", term: Terminal, *, port: int | None, quiet: bool
) -> dict[str, Any]:
    """Start Dagster and wait until it is ready."""
    from holdfast.orchestration.services.dagster import DagsterServer
    from holdfast.resources.clock import SYSTEM_CLOCK

    server = DagsterServer(project.config)
    was_running = server.find() is not None
    began = SYSTEM_CLOCK.monotonic()
    with term.spinner("starting Dagster") as change:
        running = server.ensure(
            port=port, report=lambda waits: change(f"starting Dagster: waiting for {waits}")
        )
    took = SYSTEM_CLOCK.monotonic() - began
    if not quiet:
        how = "already running" if was_running else f"started in {fmt.seconds(took)}"
        url = server.sign_in_url(running) if term.out.is_terminal else running.url
        term.out.print(f"{DONE} Dagster  {url} [dim]({how})[/dim]", soft_wrap=True)
    if was_running and port is not None and port != running.port and not quiet:
        term.out.print(
            f"{NOTE} Dagster stays on port {running.port}: run `holdfast down` first to change it"
        )
    return {"url": running.url, "pid": running.pid, "started": not was_running, "seconds": took}


def stop_dagster(project: "Project", term: Terminal, *, quiet: bool) -> dict[str, Any]:
    from holdfast.orchestration.services.dagster import DagsterServer

    with term.spinner("stopping Dagster"):
        stopped = DagsterServer(project.config).stop()
    if not quiet:
        term.out.print(f"{DONE} Dagster  {_describe_stop(stopped)}")
    return {"stopped": stopped}


def stop_object_store(project: "Project", term: Terminal, *, quiet: bool) -> dict[str, Any]:
    """Stop the embedded object store if the project uses it."""
    embedded = project.embedded_s3()
    if embedded is None:
        return {"stopped": False}
    stopped = embedded.stop()
    if not quiet:
        term.out.print(f"{DONE} object store  {_describe_stop(stopped)}")
    return {"stopped": stopped}


def _warn_undeclared(project: "Project", term: Terminal) -> None:
    """Name the streams that still run although their declaration is gone."""
    for row in project.store.streams.all():
        if row.name not in project.config.streams and project.store.replicas.of(row.name):
            term.err.print(
                f"{NOTE} {row.name} still runs, but is no longer declared: "
                "restore its file to stop it"
            )


def _describe_start(was_running: bool) -> str:  # noqa: FBT001
    return "already running" if was_running else "started"


def _describe_stop(stopped: bool) -> str:  # noqa: FBT001
    return "stopped" if stopped else "was not running"


def _finish(
    term: Terminal, facts: dict[str, Any], outcomes: list[PlaybookOutcome], *, as_json: bool
) -> None:
    if as_json:
        term.json({**facts, "streams": [outcome.as_dict() for outcome in outcomes]})
    raise typer.Exit(1 if any(outcome.error for outcome in outcomes) else 0)
