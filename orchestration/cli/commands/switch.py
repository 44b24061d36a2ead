"""`holdfast switch`: another fault-tolerance tier for a stream, while it runs."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from ft_policies.tiers import Tier
from orchestration.asking import tier_named
from orchestration.cli.stepping import Told, carry_out, plan_table
from orchestration.cli.terminal import (
    DONE,
    INTERRUPTED,
    NOTE,
    DryRunOption,
    JsonOption,
    Stream,
    Terminal,
    terminal,
)

if TYPE_CHECKING:
    from observation.coverage import TierCoverage
    from orchestration.playbooks.performing import Performed
    from streaming.world import World

ASKED = "asked on the command line"


def add_to(app: typer.Typer) -> None:
    """Give the command line this command."""
    app.command(epilog="Example:  holdfast switch word_count active_standby --dry-run")(switch)


def switch(
    ctx: typer.Context,
    *,
    stream: Stream,
    tier: Annotated[
        str,
        typer.Argument(
            metavar="TIER",
            help=f"From the fastest recovery to the cheapest: {', '.join(Tier)}.",
            autocompletion=lambda: [one.value for one in Tier],
        ),
    ],
    dry_run: DryRunOption = False,
    why: Annotated[
        str, typer.Option("--why", metavar="TEXT", help="For the history of the tier.")
    ] = ASKED,
    as_json: JsonOption = False,
) -> None:
    """Give a stream another tier and bring its replicas there, one switch at a time.

    A stopped stream gets it when it starts. The declaration's own tier stays as it is written.
    """
    tell = terminal(ctx)
    wanted = tier_named(tier)
    with tell.world() as world:
        if dry_run:
            _show_plan(tell, world, stream, wanted, as_json=as_json)
        else:
            _switch(tell, world, stream, wanted, why, as_json=as_json)


def _show_plan(tell: Terminal, world: "World", stream: str, tier: Tier, *, as_json: bool) -> None:
    from orchestration import plans
    from orchestration.playbooks.switch import switch_plan
    from streaming.observing import observe

    steps = [plans.facts(step) for step in switch_plan(world, stream, tier)]
    seen = observe(world, stream)
    now = {"stream": stream, "tier": seen.tier, "covered_tier": seen.covered}
    if as_json:
        tell.json({**now, "running": seen.wanted, "tier_to": tier, "steps": steps})
        return
    tell.out.print(
        f"{escape(stream)}: {seen.tier} → {tier}  [dim](covered now: {seen.covered})[/dim]"
    )
    tell.out.print(plan_table(steps) if steps else _nothing(stream, running=seen.wanted))


def _nothing(stream: str, *, running: bool) -> str:
    if running:
        return f"{DONE} nothing to do"
    return f"{NOTE} {escape(stream)} is stopped: the tier takes effect at the next start"


def _switch(
    tell: Terminal, world: "World", stream: str, tier: Tier, why: str, *, as_json: bool
) -> None:
    from observation.coverage import coverage_of
    from orchestration.playbooks.switch import switch as playbook
    from streaming.observing import observe

    def steps(world: "World", name: str, run: str) -> "Iterator[Performed[Any]]":
        return playbook(world, name, tier, run, why=why)

    world.project.stream(stream)
    console = None if as_json else tell.out
    try:
        (told,) = carry_out(world, [stream], steps, console, nothing_to_do=f"{tier} is wanted")
    except KeyboardInterrupt as error:
        tell.err.print(_interrupted(world, stream, tier), soft_wrap=True)
        raise typer.Exit(INTERRUPTED) from error
    seen = observe(world, stream)
    coverage = coverage_of(seen)
    if as_json:
        tell.json({**told.facts(), **_facts(coverage), "running": seen.wanted})
    elif told.error is None:
        tell.out.print(_outcome(told, coverage, running=seen.wanted))
    raise typer.Exit(0 if told.error is None else 1)


def _facts(coverage: "TierCoverage") -> dict[str, Any]:
    return {
        "tier": coverage.tier,
        "covered_tier": coverage.covered_tier,
        "held": coverage.covered,
        "reason": coverage.reason,
    }


def _outcome(told: Told, coverage: "TierCoverage", *, running: bool) -> str:
    name = escape(told.stream)
    if not running:
        return f"{NOTE} {name}  is stopped: {coverage.tier} takes effect at `holdfast start {name}`"
    return f"{DONE if coverage.covered else NOTE} {name}  {escape(coverage.reason)}"


def _interrupted(world: "World", stream: str, tier: Tier) -> str:
    row = world.store.streams.get(stream)
    if row is None or row.tier is not tier:
        return "interrupted before anything was changed"
    again = f"holdfast switch {escape(stream)} {tier}"
    return (
        f"interrupted: {escape(stream)} should have {tier} from now on, and the change is not done. "
        f"The recovery sensor finishes it if Dagster runs, and so does `{again}`. "
        "Until then at least the weaker of the two tiers is covered."
    )
