"""`holdfast simulate`: the controller over a load that never was, or over one that was."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.tiers import Guarantee
from holdfast.orchestration.cli import format as words, reading
from holdfast.orchestration.cli.terminal import DONE, NOTE, JsonOption, Terminal, terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.ft_policies.simulator.engine import Passed, Scenario
    from holdfast.ft_policies.simulator.results import Outcome
    from holdfast.orchestration.cli.scenarios import Asked, Fitted


def add_to(app: typer.Typer) -> None:
    """Give the command line this command."""
    app.command(epilog="Example:  holdfast simulate --preset thesis --plot sweep.png")(simulate)


def simulate(
    ctx: typer.Context,
    *,
    preset: Annotated[
        str,
        typer.Option(
            metavar="thesis|measured",
            help="The system: StreamMine3G as in the thesis, or Holdfast as it was measured: on the one "
            "stream that was started here, else by its own benchmark.",
        ),
    ] = "measured",
    stream: Annotated[
        str | None,
        typer.Option(
            metavar="STREAM",
            show_default=False,
            help="Holdfast as it was measured on this stream, with its prices and its controller.",
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            dir_okay=False,
            exists=True,
            show_default=False,
            help="A recorded load: CSV with the columns seconds,rows_per_second,state_bytes.",
        ),
    ] = None,
    load: Annotated[
        str | None,
        typer.Option(
            metavar="step|spikes|diurnal|erratic",
            show_default=False,
            help="A generated load. Default: step (thesis), diurnal (measured).",
        ),
    ] = None,
    streams: Annotated[int, typer.Option(min=1, max=100_000, help="How many streams.")] = 1,
    days: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=3660.0,
            show_default=False,
            help="How long. Default: the trace; 200 s (thesis), a day (measured).",
        ),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            metavar="SECONDS,…",
            show_default=False,
            help="The recovery times to hold, side by side on the same load: 0,2.5,10.",
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="all_costs|ec2|PRICES",
            show_default=False,
            help="What tiers are ranked by: weights, or a price list of configs/prices. "
            "Default: what the stream declares; else all_costs.",
        ),
    ] = None,
    guarantee: Annotated[
        Guarantee | None,
        typer.Option(
            show_default=False,
            help="What a recovery may cost in data. Default: what the stream declares; else precise.",
        ),
    ] = None,
    failures_per_day: Annotated[
        float, typer.Option(min=0.0, max=86_400.0, help="Of each stream, on the mean.")
    ] = 1.0,
    intervals: Annotated[
        str | None,
        typer.Option(
            metavar="SECONDS,…",
            show_default=False,
            help="Let the controller choose among these intervals of snapshots and syncs.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same result.")] = 0,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            dir_okay=False,
            show_default=False,
            help="Draw it: all objectives; or the time line, if there is one only.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run the controller over a load: which tiers it holds, what that costs, which objectives it misses.

    Overheads and costs are shares of what active_replication adds all the time.
    """
    from holdfast.orchestration.cli.scenarios import PLOTS, Asked

    tell = terminal(ctx)
    if plot is not None:
        reading.demand_ending(plot, *PLOTS)
    asked = Asked(
        preset=preset,
        trace=trace,
        load=load,
        streams=streams,
        days=days,
        objectives=objective,
        guarantee=guarantee,
        weights=weights,
        failures_per_day=failures_per_day,
        intervals=intervals,
        seed=seed,
    )
    asked, scenario, found = _scenario(tell, asked, stream)
    outcomes = _run(tell, scenario, plot)
    if as_json:
        tell.json(_facts(asked, scenario, found, outcomes))
        return
    _show(tell, scenario, outcomes, asked.ranked_by)
    if found is not None and found.assumed:
        tell.out.print(
            f"{NOTE} never measured on {found.declared.name}, and so taken as usual: "
            f"{', '.join(found.assumed)}"
        )
    if plot is not None:
        tell.out.print(f"{DONE} drawn: {plot}", soft_wrap=True)


def _scenario(
    tell: Terminal, asked: "Asked", stream: str | None
) -> "tuple[Asked, Scenario, Fitted | None]":
    """What is asked in full, what is to be simulated, and the stream that it was measured on."""
    from holdfast.ft_policies.costs.prices import WEIGHTS
    from holdfast.orchestration.cli import scenarios

    if stream is None and asked.asks_the_store:
        stream = _measured_here(tell)
    if stream is None:
        project = None if asked.ranked_by in WEIGHTS else tell.project()
        return asked, asked.scenario(asked.usual().system, project), None
    with tell.world() as world:
        found = scenarios.fitted(world, stream)
        asked = asked.of(found.declared)
        scenario = asked.scenario(found.system, world.config)
        return asked, replace(scenario, allowed=found.allowed), found


def _measured_here(tell: Terminal) -> str | None:
    """The one stream whose measurements are at hand; says whose figures are taken."""
    stream = _only_started(tell)
    if stream is None:
        whose = "Holdfast's own, from its benchmark; --stream STREAM takes those of your stream"
    else:
        whose = f"those of {stream}, the only stream that was started here"
    tell.err.print(f"{NOTE} the figures are {whose}", soft_wrap=True)
    return stream


def _only_started(tell: Terminal) -> str | None:
    from holdfast.orchestration.cli.scenarios import only_started

    try:
        declares = (tell.root() / "configs" / "streams").is_dir()
    except PermanentError:
        declares = False
    if not declares:  # a simulation needs no project
        return None
    with tell.world() as world:
        return only_started(world)


def _run(tell: Terminal, scenario: "Scenario", plot: Path | None) -> "tuple[Outcome, ...]":
    from holdfast.ft_policies.simulator.engine import simulate as run
    from holdfast.orchestration.cli.simulated import TimeLine, draw

    line = TimeLine(scenario)
    with tell.working("simulating") as change:
        watch = _watching(change, line if plot is not None and line.wanted else None)
        outcomes = run(scenario, watch)
    if plot is not None:
        draw(outcomes, line, plot)
    return outcomes


def _watching(change: "Callable[[str], None]", line: Any) -> "Callable[[Passed], None]":
    def watch(passed: "Passed") -> None:
        change(f"simulating: {passed.done:.0%}")
        if line is not None:
            line.add(passed)

    return watch


def _facts(
    asked: "Asked", scenario: "Scenario", found: "Fitted | None", outcomes: "Sequence[Outcome]"
) -> dict[str, Any]:
    return {
        "preset": asked.preset,
        "streams": asked.streams,
        "seconds": scenario.seconds,
        "tick_seconds": scenario.system.tick_seconds,
        "ranked_by": asked.ranked_by,
        "guarantee": scenario.guarantee,
        "failures_per_day": asked.failures_per_day,
        "seed": asked.seed,
        "stream": None if found is None else found.declared.name,
        "assumed_steps": () if found is None else found.assumed,
        "outcomes": [asdict(one) for one in outcomes],
    }


def _show(
    tell: Terminal,
    scenario: "Scenario",
    outcomes: "Sequence[Outcome]",
    ranked_by: str,
) -> None:
    priced = outcomes[0].money is not None
    table = Table(box=None, pad_edge=False)
    for column, justify in _columns(outcomes[0]):
        table.add_column(column, justify=justify)
    for one in outcomes:
        table.add_row(*_row(one))
    tell.out.print(table)
    tell.out.print(
        f"{DONE} {words.plural(scenario.trace.streams, 'stream')}, {words.age(scenario.seconds)} "
        f"in ticks of {scenario.system.tick_seconds:g} s, ranked by {ranked_by}; "
        "shares of what active_replication adds all the time"
        + ("; money per stream and hour" if priced else "")
    )
    doubles = max(one.double_misses for one in outcomes)
    if doubles:
        tell.out.print(
            f"{NOTE} up to {doubles} of the misses come from a second failure "
            "before there was a new secondary"
        )


def _columns(outcome: "Outcome") -> "list[tuple[str, Literal['left', 'right']]]":
    numbers = [*outcome.overhead, "cost"]
    if outcome.money is not None:
        numbers += [outcome.money.currency, "if active", "if passive"]
    numbers += ["switches/h", "failures", "misses"]
    return [("objective", "right"), ("tiers", "left"), *((name, "right") for name in numbers)]


def _row(one: "Outcome") -> list[str]:
    money = one.money
    amounts = (
        []
        if money is None
        else [money.per_hour, money.always_active_replication, money.always_passive_replication]
    )
    return [
        words.seconds(one.objective_seconds),
        words.tiers(one.time_share),
        *(words.share(share) for share in (*one.overhead.values(), one.cost_share)),
        *(words.money(amount) for amount in amounts),
        f"{one.switches_per_hour:.1f}",
        words.count(one.failures),
        words.count(one.misses),
    ]
