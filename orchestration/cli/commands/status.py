"""`holdfast status`: the state of the streams, once or refreshed until Ctrl-C."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType
from rich.live import Live

from holdfast.orchestration.cli.terminal import JsonOption, OnlyStream, select_streams, terminal
from holdfast.orchestration.cli.views.status import status_view

if TYPE_CHECKING:
    from holdfast.resources.project import Project

REFRESH_SECONDS = 1.0


def register(app: typer.Typer) -> None:
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
    """Show each stream: health, tier, epochs, lag, rate, state, last snapshot, replicas, changes."""
    term = terminal(ctx)
    with term.open_project() as project:
        names = select_streams(project.config, [] if stream is None else [stream])
        if as_json:
            from holdfast.orchestration.cli.views.stream_facts import observe_facts

            facts = [observe_facts(project, name) for name in names]
            problems = [str(problem) for problem in project.config.problems]
            term.json({"at": project.store.now(), "streams": facts, "problems": problems})
        elif watch and term.out.is_terminal:
            _watch(project, names)
        else:
            term.out.print(_view(project, names))


def _watch(project: "Project", names: list[str]) -> None:
    with Live(auto_refresh=False, screen=False) as live:
        try:
            while True:
                live.update(_view(project, names), refresh=True)
                project.clock.sleep(REFRESH_SECONDS)
        except KeyboardInterrupt:
            return


def _view(project: "Project", names: list[str]) -> RenderableType:
    from holdfast.orchestration.cli.views.stream_facts import observe_facts

    return status_view([observe_facts(project, name) for name in names], now=project.store.now())
