"""`holdfast explain`: why the controller chooses a tier for a stream."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from holdfast.orchestration.cli import format as words
from holdfast.orchestration.cli.terminal import JsonOption, Stream, terminal

if TYPE_CHECKING:
    from holdfast.ft_policies.tiering.decision import Decision, TierOption
    from holdfast.resources.control_store.records import DecisionRow

SHOWN_CHANGES = 10


def add_to(app: typer.Typer) -> None:
    """Give the command line this command."""
    app.command(epilog="Example:  holdfast explain word_count")(explain)


def explain(ctx: typer.Context, *, stream: Stream, as_json: JsonOption = False) -> None:
    """Explain the tier: the recovery time of every tier step by step, its cost, and why it is not chosen.

    The stream is measured now; nothing is written and nothing is switched.
    """
    from holdfast.observation.review import Reviewer

    tell = terminal(ctx)
    with tell.world() as world:
        world.config.stream(stream)
        decision = Reviewer().decide_now(world, stream)
        before = world.store.decisions.history(stream, limit=SHOWN_CHANGES)
        now = world.store.now()
    if as_json:
        tell.json({"decision": decision.to_json(), "history": [asdict(row) for row in before]})
    else:
        tell.out.print(view(decision, before, now=now))


def view(decision: "Decision", before: "Sequence[DecisionRow]", *, now: float) -> RenderableType:
    """The reason, the measurements behind it, all tiers, and the last decisions."""
    lines: list[RenderableType] = [
        f"[bold]{escape(decision.stream)}[/bold]: {escape(decision.reason)}",
        f"[dim]{_measurements(decision)}[/dim]",
        "",
        tier_table(decision),
    ]
    if before:
        lines += ["", "[bold]last decisions[/bold]", decision_table(before, now=now)]
    return Group(*lines)


def tier_table(decision: "Decision") -> Table:
    """All tiers, from the fastest recovery to the cheapest; an arrow marks the chosen one."""
    from holdfast.ft_policies.prediction.steps import STEPS

    steps = [step for step in STEPS if any(step in option.steps for option in decision.tiers)]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("tier")
    for name in (
        "recovers in",
        *(step.replace("_", " ") for step in steps),
        f"{decision.currency}/h",
    ):
        table.add_column(name, justify="right")
    table.add_column("why not chosen", overflow="fold")
    for option in decision.tiers:
        took = option.steps
        table.add_row(
            _tier_cell(option, decision),
            words.predicted(option.seconds),
            *(words.predicted(took[step]) if step in took else "" for step in steps),
            words.money(option.money_per_hour),
            escape(option.rejected or ""),
        )
    return table


def decision_table(before: "Sequence[DecisionRow]", *, now: float) -> Table:
    """The last decisions, newest first."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("when", "tier", "mode"):
        table.add_column(name)
    table.add_column("why", overflow="fold")
    for row in reversed(before):
        table.add_row(f"{words.age(now - row.at)} ago", row.chosen, row.mode, escape(row.reason))
    return table


def _tier_cell(option: "TierOption", decision: "Decision") -> str:
    name = f"[bold]{option.tier}[/bold]" if option.tier is decision.chosen else str(option.tier)
    mark = "→" if option.tier is decision.chosen else " "
    return f"{mark} {name}{' (now)' if option.tier is decision.current else ''}"


def _measurements(decision: "Decision") -> str:
    load = decision.load
    return " · ".join(
        (
            f"{decision.mode}{'' if decision.acts else ', nothing is switched'}",
            f"objective {decision.objective_seconds:g} s, {decision.guarantee}",
            f"{words.count(float(load.rows_per_second))} rows/s "
            f"of {words.count(float(load.capacity_rows_per_second))}",
            f"state {words.size(float(load.state_bytes))}",
            f"snapshots {words.interval(decision.snapshot_every)}, "
            f"syncs {words.interval(decision.sync_every)}",
        )
    )
