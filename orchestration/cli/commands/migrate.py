"""`holdfast migrate`: what is declared now, for a stream that runs by an older declaration."""

from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from holdfast.ft_policies.playbooks.recover.migration import Protocol
from holdfast.orchestration.cli import format as words
from holdfast.orchestration.cli.playbook import (
    Conclusion,
    PlaybookCommand,
    PlaybookOutcome,
    new_run,
)
from holdfast.orchestration.cli.terminal import DONE, DryRunOption, JsonOption, Stream, terminal

if TYPE_CHECKING:
    from holdfast.orchestration.playbooks.migrate import Migrate
    from holdfast.resources.project import Project

TRYING = "looking, and trying another query on a snapshot"
NOTHING = "it runs by what is declared; --again brings changed code to it"


def add_to(app: typer.Typer) -> None:
    """Give the command line this command."""
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
            help="interruption_free: the target processes beside the primary until it has caught up. replay: it takes "
            "over when little is left to replay, for an overloaded primary. legacy: stop, then start."
        ),
    ] = Protocol.INTERRUPTION_FREE,
    within: Annotated[
        float,
        typer.Option(
            min=1.0, metavar="S", help="Seconds until it is rolled back if not caught up."
        ),
    ] = 300.0,
    may_differ: Annotated[
        bool,
        typer.Option("--may-differ", help="The new code may put out something else for an epoch."),
    ] = False,
    again: Annotated[
        bool,
        typer.Option("--again", help="Though the declaration is the same: the code is not."),
    ] = False,
    why: Annotated[
        str, typer.Option("--why", metavar="TEXT", help="For the history.")
    ] = "asked on the command line",
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Bring what is declared now to a running stream: other resources, Spark conf or code.

    What a checkpoint cannot survive is refused before anything is touched. The old primary goes on until
    the target is ready; if that has not caught up in time, or computes something else, it is let go.
    """
    from holdfast.orchestration.playbooks.migrate import MigrationRequest

    request = MigrationRequest(
        protocol=protocol, within_seconds=within, may_differ=may_differ, again=again, why=why
    )

    def build(world: "Project", stream: str, run: str) -> "Migrate":
        from holdfast.orchestration.playbooks.migrate import Migrate

        return Migrate(world, stream, run, request=request)

    tell = terminal(ctx)
    with tell.world() as world:
        command = PlaybookCommand(
            tell=tell, world=world, build=build, nothing_to_do=NOTHING, as_json=as_json
        )
        if dry_run:
            with nullcontext() if as_json else tell.out.status(TRYING):
                steps = build(world, stream, new_run()).plan()
            command.show(steps, stream=stream, protocol=protocol)
            return
        world.config.stream(stream)
        command.run(stream, conclude=_conclude)


def _conclude(outcome: PlaybookOutcome) -> Conclusion:
    from holdfast.orchestration.playbooks.migrate_steps import MigrationFinished

    finished = outcome.last(MigrationFinished)
    if finished is None:
        return Conclusion(facts={"longest_gap_seconds": None})
    gap, name = finished.longest_gap_seconds, escape(outcome.stream)
    return Conclusion(
        facts={"longest_gap_seconds": gap},
        message=f"{DONE} {name}  at most {words.seconds(gap)} without a committed epoch",
    )
