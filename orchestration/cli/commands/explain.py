"""`holdfast explain`: why the controller chooses a tier for a stream."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from holdfast.orchestration.cli import format as fmt
from holdfast.orchestration.cli.terminal import JsonOption, Stream, terminal

if TYPE_CHECKING:
    from holdfast.ft_policies.tiering.decision import Decision, TierOption
    from holdfast.resources.control_store.records import DecisionRow

SHOWN_CHANGES = 10
TABLE_WIDTH = 120
INDENT = (0, 0, 0, 4)


def register(app: typer.Typer) -> None:
    app.command(epilog="Example:  holdfast explain word_count")(explain)


def explain(ctx: typer.Context, *, stream: Stream, as_json: JsonOption = False) -> None:
    """Explain the chosen tier: recovery time by step, cost, and why each other tier is not chosen.

    The decision uses current measurements; nothing is recorded or switched.
    """
    from holdfast.observation.review import Reviewer

    term = terminal(ctx)
    with term.open_project() as project:
        project.config.stream(stream)
        decision = Reviewer().decide_now(project, stream)
        history = project.store.decisions.history(stream, limit=SHOWN_CHANGES)
        now = project.store.now()
    if as_json:
        term.json({"decision": decision.to_json(), "history": [asdict(row) for row in history]})
    else:
        term.out.print(decision_view(decision, history, now=now, width=term.out.width))


def decision_view(
    decision: "Decision", history: "Sequence[DecisionRow]", *, now: float, width: int
) -> RenderableType:
    """The reason, its measurements, all tiers, and the last decisions."""
    lines: list[RenderableType] = [
        f"[bold]{escape(decision.stream)}[/bold]: {escape(decision.reason)}",
        f"[dim]{_measurements(decision)}[/dim]",
        "",
        tier_table(decision) if width >= TABLE_WIDTH else tier_list(decision),
        *(f"[dim]{line}[/dim]" for line in calibration_lines(decision)),
    ]
    if history:
        lines += ["", "[bold]last decisions[/bold]", decision_table(history, now=now)]
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
        durations = option.steps
        table.add_row(
            _tier_cell(option, decision),
            fmt.prediction(option.seconds),
            *(fmt.prediction(durations[step]) if step in durations else "" for step in steps),
            fmt.money(option.money_per_hour),
            escape(option.rejected or ""),
        )
    return table


def calibration_lines(decision: "Decision") -> list[str]:
    """What the predictions are worth, with the tiers that share it."""
    tiers: dict[str, list[str]] = {}
    for option in decision.tiers:
        if option.calibration is not None:
            tiers.setdefault(option.calibration, []).append(option.tier.value)
    return [f"{worth}: {', '.join(of_tiers)}" for worth, of_tiers in tiers.items()]


def tier_list(decision: "Decision") -> RenderableType:
    """The same for a narrow screen: steps and reason below each tier."""
    lines: list[RenderableType] = []
    for option in decision.tiers:
        heading = Table.grid(padding=(0, 2, 0, 0))
        heading.add_row(
            _tier_cell(option, decision),
            fmt.prediction(option.seconds),
            f"{fmt.money(option.money_per_hour)} {decision.currency}/h",
        )
        steps = " + ".join(
            f"{step.replace('_', ' ')} {fmt.prediction(seconds)}"
            for step, seconds in option.steps.items()
        )
        lines += [heading, *([Padding(f"[dim]{steps}[/dim]", INDENT)] if steps else [])]
        if option.rejected:
            lines.append(Padding(escape(option.rejected), INDENT))
    return Group(*lines)


def decision_table(decisions: "Sequence[DecisionRow]", *, now: float) -> Table:
    """The last decisions, newest first."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("when", "tier", "mode"):
        table.add_column(name)
    table.add_column("why", overflow="fold")
    for row in reversed(decisions):
        table.add_row(f"{fmt.age(now - row.at)} ago", row.chosen, row.mode, escape(row.reason))
    return table


def _tier_cell(option: "TierOption", decision: "Decision") -> str:
    name = f"[bold]{option.tier}[/bold]" if option.tier is decision.chosen else str(option.tier)
    mark = "→" if option.tier is decision.chosen else " "
    return f"{mark} {name}{' (now)' if option.tier is decision.current else ''}"


def _measurements(decision: "Decision") -> str:
    load = decision.load
    return " · ".join(
        (
            f"{decision.mode}{'' if decision.acts else ', switches nothing'}",
            f"objective {decision.objective_seconds:g} s, {decision.guarantee}",
            f"{fmt.count(float(load.rows_per_second))} rows/s "
            f"of {fmt.count(float(load.capacity_rows_per_second))}",
            f"state {fmt.size(float(load.state_bytes))}",
            f"snapshots {fmt.interval(decision.snapshot_every)}, "
            f"syncs {fmt.interval(decision.sync_every)}",
        )
    )
