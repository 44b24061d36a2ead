"""`holdfast drill`: a failure on purpose, timed, to see that the stream comes back as it should."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from ft_policies.drill import CUT_OFF_SECONDS, Blow
from ft_policies.errors import PermanentError
from orchestration.cli.stepping import Told, carry_out, plan_table
from orchestration.cli.terminal import (
    DONE,
    FAILED,
    DryRunOption,
    JsonOption,
    Stream,
    Terminal,
    terminal,
)

if TYPE_CHECKING:
    from orchestration.playbooks.drill import Drill


def add_to(app: typer.Typer) -> None:
    """Give the command line this command."""
    app.command(
        epilog="Examples:  holdfast drill word_count --dry-run  ·  holdfast drill word_count --blow pause --yes"
    )(drill)


def drill(
    ctx: typer.Context,
    *,
    stream: Stream,
    blow: Annotated[
        Blow,
        typer.Option(
            help="kill: kill -9 of its driver. pause: SIGSTOP. cut_off: no object store for a while."
        ),
    ] = Blow.KILL,
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
    """Strike the primary of a live stream on purpose, and time its recovery.

    Only a stream that is well is struck. What it took is compared with the prediction and with the
    objective, and the redundancy is restored. Leaves with 1 if the objective was missed. A drill that
    was cut short is finished by the next.
    """
    from orchestration.playbooks.drill import Drill

    tell = terminal(ctx)
    with tell.world() as world:
        world.config.stream(stream)

        def of(run: str) -> Drill:
            return Drill(
                world=world,
                stream=stream,
                run=run,
                blow=blow,
                cut_off_seconds=seconds,
                beyond_budget=beyond_budget,
            )

        if dry_run:
            _show_plan(tell, of("dry-run"), as_json=as_json)
            return
        if not yes:
            _demand_consent(stream, blow)
        console = None if as_json else tell.out
        [told] = carry_out(
            world,
            [stream],
            lambda world, name, run: of(run).steps(),
            console,
            nothing_to_do="is drilled",
        )
    _tell(tell, told, as_json=as_json)


def _show_plan(tell: Terminal, drill: "Drill", *, as_json: bool) -> None:
    from orchestration import plans

    steps = [plans.facts(step) for step in drill.plan()]
    if as_json:
        tell.json({"stream": drill.stream, "blow": drill.blow, "steps": steps})
        return
    tell.out.print(plan_table(steps))


def _demand_consent(stream: str, blow: Blow) -> None:
    if not sys.stdin.isatty():
        raise PermanentError(
            f"a drill strikes the live primary of {stream}, and nobody is there to be asked",
            hint="say --yes, or look at --dry-run first",
        )
    typer.confirm(f"{blow} the primary of {stream} now?", abort=True)


def _tell(tell: Terminal, told: Told, *, as_json: bool) -> None:
    outcome = told.steps[-1]["found"] if told.steps and told.error is None else {}
    if as_json:
        tell.json({**told.facts(), "outcome": outcome or None})
    elif outcome:
        mark = DONE if outcome["held"] else FAILED
        tell.out.print(f"{mark} {escape(told.stream)}  {escape(outcome['sentence'])}")
    raise typer.Exit(0 if outcome.get("held") else 1)
