"""`holdfast migrate`: move a running stream to a changed declaration or changed code."""

from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from holdfast.ft_policies.playbooks.recover.migration import Protocol
from holdfast.orchestration.cli import format as fmt
from holdfast.orchestration.cli.playbook import (
    Conclusion,
    PlaybookCommand,
    PlaybookOutcome,
    new_run,
)
from holdfast.orchestration.cli.terminal import (
    DEFAULT_REASON,
    DONE,
    DryRunOption,
    JsonOption,
    Stream,
    terminal,
)

if TYPE_CHECKING:
    from holdfast.orchestration.playbooks.migrate import Migrate
    from holdfast.resources.project import Project

CHECKING = "checking the new declaration against a snapshot"
NOTHING = "runs as declared; add --again to migrate to changed code"


def register(app: typer.Typer) -> None:
    app.command(
        epilog="Examples:  holdfast migrate word_count --dry-run  ·  holdfast migrate word_count --protocol replay"
    )(migrate)


def migrate(
    ctx: typer.Context,
    *,
    stream: Stream,
    protocol: Annotated[
        Protocol,
        typer.Option(
            help="interruption_free: the target processes beside the primary until it has caught up. "
            "replay: the target takes over when little is left to replay, for an overloaded primary. "
            "legacy: stop, then start."
        ),
    ] = Protocol.INTERRUPTION_FREE,
    within: Annotated[
        float,
        typer.Option(
            min=1.0, metavar="S", help="Roll back if the target has not caught up within S seconds."
        ),
    ] = 300.0,
    may_differ: Annotated[
        bool,
        typer.Option(
            "--may-differ",
            help="Accept that the new code computes a different output for an epoch.",
        ),
    ] = False,
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Migrate although the declaration is unchanged: the code has changed."
        ),
    ] = False,
    why: Annotated[
        str, typer.Option("--why", metavar="TEXT", help="The reason, for the history.")
    ] = DEFAULT_REASON,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Move a running stream to the current declaration: resources, Spark conf or code.

    A change that the checkpoint cannot survive is refused before anything is changed. The old primary
    continues until the target is ready. A target that does not catch up in time, or computes a
    different output, is stopped.
    """
    from holdfast.orchestration.playbooks.migrate import MigrationRequest

    request = MigrationRequest(
        protocol=protocol, within_seconds=within, may_differ=may_differ, again=again, why=why
    )

    def build(project: "Project", stream: str, run: str) -> "Migrate":
        from holdfast.orchestration.playbooks.migrate import Migrate

        return Migrate(project, stream, run, request=request)

    term = terminal(ctx)
    with term.open_project(current=[stream], current_deployment=True) as project:
        command = PlaybookCommand(
            term=term, project=project, build=build, nothing_to_do=NOTHING, as_json=as_json
        )
        if dry_run:
            with nullcontext() if as_json else term.out.status(CHECKING):
                steps = build(project, stream, new_run()).plan()
            command.show(steps, stream=stream, protocol=protocol)
            return
        project.config.stream(stream)
        command.run(stream, conclude=_conclude)


def _conclude(outcome: PlaybookOutcome) -> Conclusion:
    from holdfast.orchestration.playbooks.migrate_steps import MigrationFinished

    finished = outcome.last(MigrationFinished)
    if finished is None:
        return Conclusion(facts={"longest_gap_seconds": None})
    gap, name = finished.longest_gap_seconds, escape(outcome.stream)
    return Conclusion(
        facts={"longest_gap_seconds": gap},
        message=f"{DONE} {name}  longest gap between committed epochs: {fmt.seconds(gap)}",
    )
