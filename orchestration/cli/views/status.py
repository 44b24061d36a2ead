"""The tables of `holdfast status`: streams, replicas, changes under way, tier history."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from holdfast.ft_policies.health import Health
from holdfast.orchestration.cli import format as fmt
from holdfast.orchestration.cli.views.incidents import incident_table

if TYPE_CHECKING:
    from holdfast.orchestration.cli.views.stream_facts import (
        ChangeFacts,
        ReplicaFacts,
        StepFacts,
        StreamFacts,
    )
    from holdfast.resources.control_store.records import TierChange

WELL = (Health.HEALTHY, Health.STOPPED)
SHOWN_STEPS = 6


def status_view(streams: "list[StreamFacts]", *, now: float) -> RenderableType:
    """The tables of streams and replicas, then problems, changes under way and open incidents."""
    below: list[RenderableType] = [line for facts in streams for line in _remarks(facts)]
    if any(facts.replicas for facts in streams):
        below = ["", replica_table(streams), *below]
    if len(streams) == 1 and len(streams[0].tier_history) > 1:
        below += ["", "[bold]tier history[/bold]", history_table(streams[0].tier_history, now)]
    incidents = [incident for facts in streams for incident in facts.incidents]
    if incidents:
        below += ["", "[bold]open incidents[/bold]", incident_table(incidents, now)]
    return Group(_stream_table(streams), *below)


def _stream_table(streams: "list[StreamFacts]") -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("stream", overflow="fold")
    table.add_column("health")
    for name in ("epoch", "lag", "rate", "state"):
        table.add_column(name, justify="right")
    table.add_column("last snapshot")
    for facts in streams:
        table.add_row(*_cells(facts))
    return table


def _remarks(facts: "StreamFacts") -> list[str]:
    """What is wrong with a stream, what its tier lacks, and which change is under way."""
    name = f"[dim]{escape(facts.stream)}:[/dim]"
    remarks = [] if facts.health in WELL else [f"{name} {escape(facts.reason)}"]
    if facts.last_restore is not None and facts.last_restore.half_done:
        state = f"restore to epoch {facts.last_restore.epoch} is unfinished"
        hint = f"run `holdfast restore {escape(facts.stream)}` to finish it"
        remarks.append(f"{name} [yellow]{state}: {hint}[/yellow]")
    if facts.rows_without_state:
        lost = fmt.plural(facts.rows_without_state, "row")
        remarks.append(f"{name} continued with empty state: the state of {lost} was given up")
    if facts.skipped_rows:
        remarks.append(f"{name} {fmt.plural(facts.skipped_rows, 'row')} of input skipped so far")
    if facts.not_migrated:
        changed = f"declared and not migrated: {', '.join(facts.not_migrated)}"
        remarks.append(f"{name} {changed}; run `holdfast migrate {escape(facts.stream)}`")
    if not facts.tier_covered:
        remarks.append(
            f"{name} [yellow]should have {facts.tier}: {escape(facts.tier_reason)}[/yellow]"
        )
    return remarks if facts.change is None else [*remarks, f"{name} {change_line(facts.change)}"]


def _cells(facts: "StreamFacts") -> list[str]:
    objective = f"{_tier(facts)}\nrecovery in {facts.recovery_time_seconds:g} s, {facts.guarantee}"
    return [
        f"[bold]{escape(facts.stream)}[/bold]\n[dim]{objective}[/dim]",
        _health(facts),
        _pair(facts.epoch_committed, facts.epoch_decided),
        f"{fmt.age(facts.lag_seconds)}\n[dim]{_rows(facts.lag_rows)}[/dim]",
        fmt.NONE
        if facts.rate_rows_per_second is None
        else f"{fmt.number(facts.rate_rows_per_second)} rows/s",
        f"{_rows(facts.state_rows)}\n[dim]{fmt.size(facts.state_bytes)}[/dim]",
        _snapshot(facts),
    ]


def _tier(facts: "StreamFacts") -> str:
    if facts.tier_covered:
        return facts.tier
    return f"{facts.tier}\n[yellow]covered: {facts.covered_tier}[/yellow]"


def _health(facts: "StreamFacts") -> str:
    colour = {Health.HEALTHY.value: "green", Health.STOPPED.value: "dim"}.get(
        facts.health, "yellow"
    )
    return f"[{'red' if facts.failed else colour}]{facts.health}[/]"


def _pair(committed: int | None, decided: int | None) -> str:
    """The last committed epoch above the last decided one."""
    if decided is None:
        return fmt.NONE
    return f"{fmt.count(committed)}\n[dim]of {decided:,}[/dim]"


def _rows(number: int | None) -> str:
    return fmt.NONE if number is None else fmt.plural(number, "row")


def _snapshot(facts: "StreamFacts") -> str:
    if facts.snapshot is None:
        return "none"
    newest = facts.snapshot
    return (
        f"{fmt.age(newest.age_seconds)} ago\n"
        f"[dim]epoch {newest.epoch:,}, {fmt.size(newest.total_bytes)}[/dim]"
    )


def replica_table(streams: "Sequence[StreamFacts]") -> Table:
    """One row per live replica, the primary of a stream before its secondary."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("replica", "slot", "state", "where"):
        table.add_column(name)
    table.add_column("lag", justify="right")
    table.add_column("switches")
    for facts in streams:
        for replica in facts.replicas:
            table.add_row(*_replica_cells(replica))
    return table


def change_line(change: "ChangeFacts") -> str:
    """`switch: LaunchSecondary 0.1 s, TurnSwitch sync on for 0.4 s …, then TurnSwitch receive on`."""
    begun = [_step(step) for step in change.steps if not step.is_planned]
    planned = [_name(step) for step in change.steps if step.is_planned]
    hidden = len(begun) - SHOWN_STEPS
    before = [fmt.plural(hidden, "earlier step")] if hidden > 0 else []
    then = [f"[dim]then {', '.join(planned)}[/dim]"] if planned else []
    shown = ", ".join([*before, *begun[-SHOWN_STEPS:], *then])
    return f"{change.playbook} [dim]({escape(change.run[:12])})[/dim]: {shown}"


def history_table(changes: "Sequence[TierChange]", now: float) -> Table:
    """Each requested tier: when, why, and how long the switch took; newest first."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("requested", "from", "to", "reached", "why"):
        table.add_column(name)
    for change in reversed(changes):
        reached = change.reached_at
        table.add_row(
            f"{fmt.age(now - change.at)} ago",
            fmt.NONE if change.tier_from is None else change.tier_from,
            change.tier_to,
            fmt.NONE if reached is None else f"after {fmt.seconds(reached - change.at)}",
            escape(change.why),
        )
    return table


def _replica_cells(replica: "ReplicaFacts") -> list[str]:
    is_ill = replica.health not in (Health.HEALTHY, replica.state)
    where = "not started" if replica.pid is None else f"{escape(replica.host)} pid {replica.pid}"
    lag = replica.lag_epochs
    return [
        escape(replica.id),
        replica.slot,
        f"{replica.state}, [yellow]{replica.health}[/yellow]" if is_ill else replica.state,
        where,
        fmt.NONE if lag is None else fmt.plural(lag, "epoch"),
        _switches(replica),
    ]


def _switches(replica: "ReplicaFacts") -> str:
    observed = ", ".join(replica.observed) or "none"
    desired = ", ".join(replica.desired) or "none"
    if observed == desired:
        return f"on: {observed}"
    return f"[yellow]on: {observed}; wanted: {desired}[/yellow]"


def _step(step: "StepFacts") -> str:
    name = _name(step)
    match step.phase:
        case "intent":
            return f"[yellow]{name} for {fmt.seconds(step.seconds)} …[/yellow]"
        case "failed":
            why = f": {escape(step.failure)}" if step.failure else ""
            return f"[red]{name} failed{why}[/red]"
        case _:
            return f"{name} {fmt.seconds(step.seconds)}"


def _name(step: "StepFacts") -> str:
    return f"{step.step} {escape(step.about)}".rstrip()
