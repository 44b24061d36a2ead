"""`holdfast drill`: a fault on purpose, timed, to see that the stream comes back as it should."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.playbooks.drill import CUT_OFF_SECONDS, Fault
from holdfast.orchestration.cli.playbook import Conclusion, PlaybookCommand, PlaybookOutcome
from holdfast.orchestration.cli.terminal import (
    DONE,
    FAILED,
    DryRunOption,
    JsonOption,
    Stream,
    terminal,
)

if TYPE_CHECKING:
    from holdfast.orchestration.playbooks.drill import Drill
    from holdfast.resources.project import Project


def add_to(app: typer.Typer) -> None:
    """Give the command line this command."""
    app.command(
        epilog="Examples:  holdfast drill word_count --dry-run  ·  holdfast drill word_count --fault pause --yes"
    )(drill)


def drill(
    ctx: typer.Context,
    *,
    stream: Stream,
    fault: Annotated[
        Fault,
        typer.Option(
            help="kill: kill -9 of its driver. pause: SIGSTOP. cut_off: no object store for a while."
        ),
    ] = Fault.KILL,
    blow: Annotated[
        Fault | None, typer.Option(hidden=True, help="The old name of --fault.")
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=1.0, metavar="S", help="How long cut_off lasts.")
    ] = CUT_OFF_SECONDS,
    beyond_budget: Annotated[
        bool,
        typer.Option("--beyond-budget", help="Even if it was disturbed often enough lately."),
    ] = False,
    dry_run: DryRunOption = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Inject a fault into the primary of a live stream, and time its recovery.

    Only a healthy stream is drilled. What the recovery took is compared with the prediction and with the
    objective, and the redundancy is restored. Leaves with 1 if the objective was missed. A drill that
    was cut short is finished by the next.
    """
    chosen = blow or fault

    def build(world: "Project", stream: str, run: str) -> "Drill":
        from holdfast.orchestration.playbooks.drill import Drill

        return Drill(
            world,
            stream,
            run,
            fault=chosen,
            cut_off_seconds=seconds,
            beyond_budget=beyond_budget,
        )

    tell = terminal(ctx)
    with tell.world() as world:
        world.config.stream(stream)
        command = PlaybookCommand(
            tell=tell, world=world, build=build, nothing_to_do="is drilled", as_json=as_json
        )
        if dry_run:
            command.plan(stream, fault=chosen)
            return
        if not yes:
            _require_consent(stream, chosen)
        command.run(stream, conclude=_conclude)


def _require_consent(stream: str, fault: Fault) -> None:
    if not sys.stdin.isatty():
        raise PermanentError(
            f"a drill injects a fault into the live primary of {stream}, and needs consent",
            hint="say --yes, or look at --dry-run first",
        )
    typer.confirm(f"{fault} the primary of {stream} now?", abort=True)


def _conclude(outcome: PlaybookOutcome) -> Conclusion:
    from holdfast.orchestration.playbooks.drill_outcome import DrillOutcome

    result = outcome.last(DrillOutcome) if outcome.error is None else None
    if result is None:
        return Conclusion(facts={"outcome": None}, code=1)
    mark = DONE if result.held else FAILED
    return Conclusion(
        facts={"outcome": result.as_dict()},
        message=f"{mark} {escape(outcome.stream)}  {escape(result.sentence)}",
        code=0 if result.held else 1,
    )
