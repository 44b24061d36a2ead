"""`holdfast migrate`: what is declared now, for a stream that runs by an older declaration."""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from ft_policies.migration import Protocol
from orchestration.cli import words
from orchestration.cli.stepping import Told, carry_out, new_run, plan_table
from orchestration.cli.terminal import DONE, DryRunOption, JsonOption, Stream, Terminal, terminal

if TYPE_CHECKING:
    from orchestration.playbooks.migrate import Wish
    from orchestration.playbooks.performing import Performed
    from resources.project import Project

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
            help="interruption_free: the target processes beside the primary until it is level. replay: it takes "
            "over when little is left to replay, for an overloaded primary. legacy: stop, then start."
        ),
    ] = Protocol.INTERRUPTION_FREE,
    within: Annotated[
        float,
        typer.Option(min=1.0, metavar="S", help="Seconds until it is rolled back if not level."),
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
    the target is ready; if that is not level in time, or computes something else, it is let go.
    """
    from orchestration.playbooks.migrate import Wish

    tell = terminal(ctx)
    wish = Wish(
        protocol=protocol, within_seconds=within, may_differ=may_differ, again=again, why=why
    )
    with tell.world() as world:
        if dry_run:
            _show_plan(tell, world, stream, wish, as_json=as_json)
        else:
            _migrate(tell, world, stream, wish, as_json=as_json)


def _show_plan(
    tell: Terminal, world: "Project", stream: str, wish: "Wish", *, as_json: bool
) -> None:
    from orchestration import plans
    from orchestration.playbooks.migrate import migration_plan

    with nullcontext() if as_json else tell.out.status(TRYING):
        plan = migration_plan(world, stream, new_run(), wish)
    steps = [plans.facts(step) for step in plan]
    if as_json:
        tell.json({"stream": stream, "protocol": wish.protocol, "steps": steps})
        return
    tell.out.print(plan_table(steps) if steps else f"{DONE} {escape(stream)}  {NOTHING}")


def _migrate(tell: Terminal, world: "Project", stream: str, wish: "Wish", *, as_json: bool) -> None:
    from orchestration.playbooks.migrate import migrate as playbook

    def steps(world: "Project", name: str, run: str) -> "Iterator[Performed[Any]]":
        return playbook(world, name, run, wish)

    world.config.stream(stream)
    [told] = carry_out(world, [stream], steps, None if as_json else tell.out, nothing_to_do=NOTHING)
    gap = _longest_gap(told)
    if as_json:
        tell.json({**told.facts(), "longest_gap_seconds": gap})
    elif gap is not None:
        name = escape(stream)
        tell.out.print(f"{DONE} {name}  at most {words.seconds(gap)} without a committed epoch")
    raise typer.Exit(0 if told.error is None else 1)


def _longest_gap(told: Told) -> float | None:
    found = (step["found"].get("longest_gap_seconds") for step in told.steps)
    return next((float(gap) for gap in found if gap is not None), None)
