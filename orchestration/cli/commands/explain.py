"""`holdfast explain`: why a stream should have the tier that it should have."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from orchestration.cli import words
from orchestration.cli.terminal import JsonOption, Stream, terminal

if TYPE_CHECKING:
    from ft_policies.tiering.decision import Decision, TierOption
    from resources.control.decisions import DecisionRow

SHOWN_CHANGES = 10


def add_to(app: typer.Typer) -> None:
    """Give the command line this command."""
    app.command(epilog="Example:  holdfast explain word_count")(explain)


def explain(ctx: typer.Context, *, stream: Stream, as_json: JsonOption = False) -> None:
    """Say why this tier now: what each would take step by step and cost, and why it was not chosen.

    The stream is looked at anew; nothing is written and nothing is switched.
    """
    from observation.review import Reviewer

    tell = terminal(ctx)
    with tell.world() as world:
        world.project.stream(stream)
        decided = Reviewer().decide_now(world, stream)
        before = world.store.decisions.history(stream, limit=SHOWN_CHANGES)
        now = world.store.now()
    if as_json:
        tell.json({"decision": decided.to_json(), "history": [asdict(row) for row in before]})
    else:
        tell.out.print(view(decided, before, now=now))


def view(decided: "Decision", before: "Sequence[DecisionRow]", *, now: float) -> RenderableType:
    """The sentence, what it rests on, the tiers, and the last changes of mind."""
    lines: list[RenderableType] = [
        f"[bold]{escape(decided.stream)}[/bold]: {escape(decided.reason)}",
        f"[dim]{_circumstances(decided)}[/dim]",
        "",
        tier_table(decided),
    ]
    if before:
        lines += ["", "[bold]last changes of mind[/bold]", change_table(before, now=now)]
    return Group(*lines)


def tier_table(decided: "Decision") -> Table:
    """Every tier, from the fastest recovery to the cheapest; the chosen one is marked."""
    from ft_policies.prediction.steps import STEPS

    steps = [step for step in STEPS if any(step in one.steps for one in decided.tiers)]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("tier")
    for name in ("back in", *(step.replace("_", " ") for step in steps), f"{decided.currency}/h"):
        table.add_column(name, justify="right")
    table.add_column("why not", overflow="fold")
    for one in decided.tiers:
        table.add_row(
            _named(one, decided),
            words.predicted(one.seconds),
            *(words.predicted(one.steps[step]) if step in one.steps else "" for step in steps),
            words.money(one.money_per_hour),
            escape(one.rejected or ""),
        )
    return table


def change_table(before: "Sequence[DecisionRow]", *, now: float) -> Table:
    """What was decided lately, newest first."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("when", "tier", "mode"):
        table.add_column(name)
    table.add_column("why", overflow="fold")
    for row in reversed(before):
        table.add_row(f"{words.age(now - row.at)} ago", row.chosen, row.mode, escape(row.reason))
    return table


def _named(one: "TierOption", decided: "Decision") -> str:
    name = f"[bold]{one.tier}[/bold]" if one.tier is decided.chosen else str(one.tier)
    mark = "→" if one.tier is decided.chosen else " "
    return f"{mark} {name}{' (now)' if one.tier is decided.current else ''}"


def _circumstances(decided: "Decision") -> str:
    load = decided.load
    return " · ".join(
        (
            f"{decided.mode}{'' if decided.acts else ', nothing is switched'}",
            f"back in {decided.objective_seconds:g} s, {decided.guarantee}",
            f"{words.count(float(load.rows_per_second))} rows/s "
            f"of {words.count(float(load.capacity_rows_per_second))}",
            f"state {words.size(float(load.state_bytes))}",
            f"snapshots {words.interval(decided.snapshot_every)}, "
            f"syncs {words.interval(decided.sync_every)}",
        )
    )
