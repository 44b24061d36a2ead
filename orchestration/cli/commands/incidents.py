"""`holdfast incidents`: list incidents, and close one by hand."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.ft_policies.errors import PermanentError
from holdfast.orchestration.cli.terminal import DONE, JsonOption, OnlyStream, terminal
from holdfast.orchestration.cli.views.incidents import incident_table
from holdfast.resources.control_store.incident_kinds import LASTING, IncidentKind

if TYPE_CHECKING:
    from holdfast.resources.control_store.records import Incident
    from holdfast.resources.project import Project


def register(app: typer.Typer) -> None:
    app.command(
        epilog="Examples:  holdfast incidents word_count --open  ·  "
        'holdfast incidents --close 1f0c9a2e --why "build no longer uses the clock"'
    )(incidents)


def incidents(
    ctx: typer.Context,
    *,
    stream: OnlyStream = None,
    open_only: Annotated[bool, typer.Option("--open", help="Only open incidents.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Show at most this many.")] = 20,
    close: Annotated[
        str | None,
        typer.Option(
            "--close",
            metavar="ID",
            show_default=False,
            help="Close this incident (needs --why); only a kind that no sensor closes.",
        ),
    ] = None,
    why: Annotated[
        str | None,
        typer.Option("--why", metavar="TEXT", show_default=False, help="The reason, with --close."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List incidents, newest first, with state, attempts and outcome; or close one."""
    if (close is None) is not (why is None):
        raise typer.BadParameter("--close ID and --why TEXT go together")
    term = terminal(ctx)
    with term.open_project() as project:
        if stream is not None:
            project.config.stream(stream)
        if close is not None and why is not None:
            rows = [close_incident(project, stream, close, why=why)]
        else:
            rows = project.store.incidents.of(stream, open_only=open_only)[:limit]
        now = project.store.now()
    if as_json:
        term.json({"incidents": [asdict(incident) for incident in rows]})
    elif not rows:
        term.out.print(f"{DONE} no {'open ' if open_only else ''}incident")
    else:
        term.out.print(incident_table(rows, now))


def close_incident(
    project: "Project", stream: str | None, id_prefix: str, *, why: str
) -> "Incident":
    """Close the incident whose id begins with the prefix.

    Fails unless it is open and of a kind that no sensor closes: any other would be opened again.
    """
    from holdfast.resources.control_store.records import IncidentState

    incident = _find(project.store.incidents.of(stream, open_only=False), id_prefix)
    if incident.state is IncidentState.CLOSED:
        raise PermanentError(f"incident {incident.id} is already closed: {incident.outcome}")
    if incident.kind in {IncidentKind.RECOVERY, *LASTING}:
        name = incident.stream
        raise PermanentError(
            f"incident {incident.id} ({incident.kind}) cannot be closed by hand: "
            f"the recovery sensor closes it as soon as {name} is healthy again",
            hint=f"run `holdfast recover {name}`, or `holdfast stop {name}` if it is not needed",
        )
    project.store.incidents.close(incident.id, f"closed by hand: {why}")
    return project.store.incidents.get(incident.id) or incident


def _find(incidents: "list[Incident]", id_prefix: str) -> "Incident":
    matches = [incident for incident in incidents if incident.id.startswith(id_prefix)]
    if not matches:
        raise PermanentError(
            f"there is no incident {id_prefix!r}", hint="run `holdfast incidents` to list them"
        )
    if len(matches) > 1:
        raise PermanentError(
            f"{len(matches)} incidents begin with {id_prefix!r}",
            hint=f"give more of the id: {', '.join(incident.id for incident in matches)}",
        )
    return matches[0]
