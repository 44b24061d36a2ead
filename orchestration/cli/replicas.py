"""Replicas, changes of them and their tiers as people read them in `holdfast status`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from holdfast.orchestration.cli import format as words

if TYPE_CHECKING:
    from holdfast.orchestration.cli.changing import ChangeFacts, StepFacts
    from holdfast.orchestration.cli.facts import ReplicaFacts, StreamFacts
    from holdfast.resources.control_store.records import TierChange

SHOWN_STEPS = 6


def replica_table(streams: "Sequence[StreamFacts]") -> Table:
    """A line for each live replica, the primary of a stream before its secondary."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("replica", "slot", "state", "where"):
        table.add_column(name)
    table.add_column("lag", justify="right")
    table.add_column("switches")
    for facts in streams:
        for replica in facts.replicas:
            table.add_row(*_cells(replica))
    return table


def change_line(change: "ChangeFacts") -> str:
    """`switch: LaunchSecondary 0.1 s, TurnSwitch sync on for 0.4 s …, then TurnSwitch receive on`."""
    begun = [_step(step) for step in change.steps if step.phase != "planned"]
    planned = [_name(step) for step in change.steps if step.phase == "planned"]
    hidden = len(begun) - SHOWN_STEPS
    before = [f"{hidden} steps before"] if hidden > 0 else []
    then = [f"[dim]then {', '.join(planned)}[/dim]"] if planned else []
    shown = ", ".join([*before, *begun[-SHOWN_STEPS:], *then])
    return f"{change.playbook} [dim]({escape(change.run[:12])})[/dim]: {shown}"


def history_table(changes: "Sequence[TierChange]", now: float) -> Table:
    """When which tier was asked for and why, and how long it took."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("asked", "from", "to", "reached", "why"):
        table.add_column(name)
    for one in reversed(changes):
        reached = one.reached_at
        table.add_row(
            f"{words.age(now - one.at)} ago",
            words.NONE if one.tier_from is None else one.tier_from,
            one.tier_to,
            words.NONE if reached is None else f"after {words.seconds(reached - one.at)}",
            escape(one.why),
        )
    return table


def _cells(replica: "ReplicaFacts") -> list[str]:
    ill = replica.health not in ("healthy", replica.state)
    where = "not started" if replica.pid is None else f"{escape(replica.host)} pid {replica.pid}"
    lag = replica.lag_epochs
    return [
        escape(replica.id),
        replica.slot,
        f"{replica.state}, [yellow]{replica.health}[/yellow]" if ill else replica.state,
        where,
        words.NONE if lag is None else words.plural(lag, "epoch"),
        _switches(replica),
    ]


def _switches(replica: "ReplicaFacts") -> str:
    has, should = ", ".join(replica.observed) or "none", ", ".join(replica.desired) or "none"
    if has == should:
        return f"on: {has}"
    return f"[yellow]on: {has}; wanted: {should}[/yellow]"


def _step(step: "StepFacts") -> str:
    name = _name(step)
    match step.phase:
        case "intent":
            return f"[yellow]{name} for {words.seconds(step.seconds)} …[/yellow]"
        case "failed":
            return f"[red]{name} failed[/red]"
        case _:
            return f"{name} {words.seconds(step.seconds)}"


def _name(step: "StepFacts") -> str:
    return f"{step.step} {escape(step.about)}".rstrip()
