"""`holdfast switch`: another fault-tolerance tier for a stream, while it runs."""

from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.markup import escape

from holdfast.ft_policies.tiers import Tier
from holdfast.orchestration.cli.playbook import Conclusion, PlaybookCommand, PlaybookOutcome
from holdfast.orchestration.cli.terminal import (
    DONE,
    NOTE,
    DryRunOption,
    JsonOption,
    Stream,
    terminal,
)
from holdfast.orchestration.parsing import parse_enum

if TYPE_CHECKING:
    from holdfast.observation.coverage import TierCoverage
    from holdfast.orchestration.playbooks.lifecycle import SwitchTier
    from holdfast.resources.project import Project

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
    wanted = parse_enum(Tier, tier)

    def build(world: "Project", stream: str, run: str) -> "SwitchTier":
        from holdfast.orchestration.playbooks.lifecycle import SwitchTier

        return SwitchTier(world, stream, run, tier=wanted, why=why)

    with tell.world() as world:
        command = PlaybookCommand(
            tell=tell,
            world=world,
            build=build,
            nothing_to_do=f"{wanted} is wanted",
            as_json=as_json,
        )
        _plan(command, stream, wanted) if dry_run else _run(command, stream, wanted)


def _plan(command: PlaybookCommand, stream: str, tier: Tier) -> None:
    from holdfast.observation.status import observe

    command.world.config.stream(stream)
    seen = observe(command.world, stream)
    if not command.as_json:
        command.tell.out.print(
            f"{escape(stream)}: {seen.tier} → {tier}  [dim](covered now: {seen.covered})[/dim]"
        )
    command.plan(
        stream,
        otherwise=_nothing(stream, running=seen.wanted),
        tier=seen.tier,
        covered_tier=seen.covered,
        running=seen.wanted,
        tier_to=tier,
    )


def _nothing(stream: str, *, running: bool) -> str:
    if running:
        return f"{DONE} nothing to do"
    return f"{NOTE} {escape(stream)} is stopped: the tier takes effect at the next start"


def _run(command: PlaybookCommand, stream: str, tier: Tier) -> NoReturn:
    from holdfast.observation.coverage import coverage_of
    from holdfast.observation.status import observe

    world = command.world
    world.config.stream(stream)

    def conclude(outcome: PlaybookOutcome) -> Conclusion:
        seen = observe(world, stream)
        coverage = coverage_of(seen)
        message = _message(stream, coverage, running=seen.wanted)
        return Conclusion(
            facts={**_facts(coverage), "running": seen.wanted},
            message=message if outcome.error is None else "",
        )

    command.run(stream, conclude=conclude, interrupted=lambda: _interrupted(world, stream, tier))


def _facts(coverage: "TierCoverage") -> dict[str, Any]:
    return {
        "tier": coverage.tier,
        "covered_tier": coverage.covered_tier,
        "held": coverage.covered,
        "reason": coverage.reason,
    }


def _message(stream: str, coverage: "TierCoverage", *, running: bool) -> str:
    name = escape(stream)
    if not running:
        return f"{NOTE} {name}  is stopped: {coverage.tier} takes effect at `holdfast start {name}`"
    return f"{DONE if coverage.covered else NOTE} {name}  {escape(coverage.reason)}"


def _interrupted(world: "Project", stream: str, tier: Tier) -> str:
    row = world.store.streams.get(stream)
    if row is None or row.tier is not tier:
        return "interrupted before anything was changed"
    again = f"holdfast switch {escape(stream)} {tier}"
    return (
        f"interrupted: {escape(stream)} should have {tier} from now on, and the change is not done. "
        f"The recovery sensor finishes it if Dagster runs, and so does `{again}`. "
        "Until then at least the weaker of the two tiers is covered."
    )
