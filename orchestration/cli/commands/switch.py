"""`holdfast switch`: change the fault-tolerance tier of a stream while it runs."""

from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.markup import escape

from holdfast.ft_policies.tiers import Tier
from holdfast.orchestration.cli.playbook import (
    Conclusion,
    PlaybookCommand,
    PlaybookOutcome,
    playbook_command,
)
from holdfast.orchestration.cli.terminal import (
    DEFAULT_REASON,
    DONE,
    NOTE,
    DryRunOption,
    JsonOption,
    Stream,
)
from holdfast.orchestration.parsing import parse_enum

if TYPE_CHECKING:
    from holdfast.observation.coverage import TierCoverage
    from holdfast.orchestration.playbooks.lifecycle import SwitchTier
    from holdfast.resources.project import Project


def register(app: typer.Typer) -> None:
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
            autocompletion=lambda: [tier.value for tier in Tier],
        ),
    ],
    dry_run: DryRunOption = False,
    why: Annotated[
        str, typer.Option("--why", metavar="TEXT", help="The reason, for the tier history.")
    ] = DEFAULT_REASON,
    as_json: JsonOption = False,
) -> None:
    """Change the tier of a stream, and its replicas one switch at a time.

    For a stopped stream the tier takes effect at its start. The declaration is not changed.
    """
    wanted = parse_enum(Tier, tier)

    def build(project: "Project", stream: str, run: str) -> "SwitchTier":
        from holdfast.orchestration.playbooks.lifecycle import SwitchTier

        return SwitchTier(project, stream, run, tier=wanted, why=why)

    with playbook_command(
        ctx, build, nothing_to_do=f"already has {wanted}", as_json=as_json
    ) as command:
        _plan(command, stream, wanted) if dry_run else _run(command, stream, wanted)


def _plan(command: PlaybookCommand, stream: str, tier: Tier) -> None:
    from holdfast.observation.status import observe_stream

    command.project.config.stream(stream)
    status = observe_stream(command.project, stream)
    if not command.as_json:
        command.term.out.print(
            f"{escape(stream)}: {status.tier} → {tier}  [dim](covered now: {status.covered})[/dim]"
        )
    command.plan(
        stream,
        otherwise=_nothing(stream, running=status.wanted),
        tier=status.tier,
        covered_tier=status.covered,
        running=status.wanted,
        tier_to=tier,
    )


def _nothing(stream: str, *, running: bool) -> str:
    if running:
        return f"{DONE} nothing to do"
    return f"{NOTE} {escape(stream)} is stopped: the tier takes effect at the next start"


def _run(command: PlaybookCommand, stream: str, tier: Tier) -> NoReturn:
    from holdfast.observation.coverage import coverage_of
    from holdfast.observation.status import observe_stream

    project = command.project
    project.config.stream(stream)

    def conclude(outcome: PlaybookOutcome) -> Conclusion:
        status = observe_stream(project, stream)
        coverage = coverage_of(status)
        message = _message(stream, coverage, running=status.wanted)
        return Conclusion(
            facts={**_facts(coverage), "running": status.wanted},
            message=message if outcome.error is None else "",
        )

    command.run(
        stream, conclude=conclude, interrupted=lambda: _describe_interruption(project, stream, tier)
    )


def _facts(coverage: "TierCoverage") -> dict[str, Any]:
    return {
        "tier": coverage.tier,
        "covered_tier": coverage.covered_tier,
        "covered": coverage.covered,
        "reason": coverage.reason,
    }


def _message(stream: str, coverage: "TierCoverage", *, running: bool) -> str:
    name = escape(stream)
    if not running:
        return f"{NOTE} {name}  is stopped: {coverage.tier} takes effect at `holdfast start {name}`"
    return f"{DONE if coverage.covered else NOTE} {name}  {escape(coverage.reason)}"


def _describe_interruption(project: "Project", stream: str, tier: Tier) -> str:
    row = project.store.streams.get(stream)
    if row is None or row.tier is not tier:
        return "interrupted: nothing was changed"
    again = f"holdfast switch {escape(stream)} {tier}"
    return (
        f"interrupted: the switch of {escape(stream)} to {tier} is recorded, but not finished. "
        f"The recovery sensor finishes it if Dagster runs; or run `{again}`. "
        "Until then at least the weaker of the two tiers is covered."
    )
