"""`holdfast simulate`: the controller on a generated or recorded load."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.tiers import Guarantee
from holdfast.orchestration.cli import format as fmt
from holdfast.orchestration.cli.terminal import DONE, NOTE, JsonOption, Terminal, terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.ft_policies.simulator.engine import Scenario, SimulationProgress
    from holdfast.ft_policies.simulator.results import Outcome
    from holdfast.orchestration.cli.views.scenarios import FittedSystem, SimulationOptions
    from holdfast.orchestration.cli.views.simulation import Timeline


def register(app: typer.Typer) -> None:
    app.command(epilog="Example:  holdfast simulate --preset thesis --plot sweep.png")(simulate)


def simulate(
    ctx: typer.Context,
    *,
    preset: Annotated[
        str,
        typer.Option(
            metavar="thesis|measured",
            help="The system: StreamMine3G as in the thesis, or Holdfast as measured (on the only "
            "stream started in this project, else in its own benchmark).",
        ),
    ] = "measured",
    stream: Annotated[
        str | None,
        typer.Option(
            metavar="STREAM",
            show_default=False,
            help="Simulate Holdfast as measured on this stream, with its prices and controller.",
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            dir_okay=False,
            exists=True,
            show_default=False,
            help="Replay a recorded load: CSV with columns seconds,rows_per_second,state_bytes.",
        ),
    ] = None,
    load: Annotated[
        str | None,
        typer.Option(
            metavar="step|spikes|diurnal|erratic",
            show_default=False,
            help="Generate a load. Default: step (thesis), diurnal (measured).",
        ),
    ] = None,
    streams: Annotated[int, typer.Option(min=1, max=100_000, help="Number of streams.")] = 1,
    days: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=3660.0,
            show_default=False,
            help="Simulated days. Default: the length of the trace, else 200 s (thesis) or 1 day (measured).",
        ),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            metavar="SECONDS,…",
            show_default=False,
            help="Recovery times to hold, side by side on the same load, such as 0,2.5,10.",
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="all_costs|ec2|PRICES",
            show_default=False,
            help="Rank tiers by these weights, or by a price list of configs/prices. "
            "Default: as the stream declares, else all_costs.",
        ),
    ] = None,
    guarantee: Annotated[
        Guarantee | None,
        typer.Option(
            show_default=False,
            help="The guarantee to hold. Default: as the stream declares, else precise.",
        ),
    ] = None,
    failures_per_day: Annotated[
        float, typer.Option(min=0.0, max=86_400.0, help="Mean failures per stream and day.")
    ] = 1.0,
    intervals: Annotated[
        str | None,
        typer.Option(
            metavar="SECONDS,…",
            show_default=False,
            help="Intervals of snapshots and syncs that the controller may choose from.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same result.")] = 0,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            dir_okay=False,
            show_default=False,
            help="Draw all objectives, or the timeline of a single one (.png, .svg, .pdf).",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Simulate the controller: time in each tier, costs, missed objectives.

    Overheads and costs are shares of what permanent active_replication adds.
    """
    from holdfast.orchestration.cli.views.scenarios import PLOTS, SimulationOptions

    term = terminal(ctx)
    if plot is not None:
        fmt.require_suffix(plot, *PLOTS)
    options = SimulationOptions(
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
    options, scenario, fitted = _scenario(term, options, stream)
    outcomes = _run(term, scenario, plot)
    if as_json:
        term.json(_facts(options, scenario, fitted, outcomes))
        return
    _show(term, scenario, outcomes, options.ranked_by)
    if fitted is not None and fitted.assumed:
        term.out.print(
            f"{NOTE} not measured on {fitted.declared.name}, defaults used: "
            f"{', '.join(fitted.assumed)}"
        )
    if plot is not None:
        term.out.print(f"{DONE} drawn: {plot}", soft_wrap=True)


def _scenario(
    term: Terminal, options: "SimulationOptions", stream: str | None
) -> "tuple[SimulationOptions, Scenario, FittedSystem | None]":
    """The completed options, the scenario, and the fitted system if a stream was measured."""
    from holdfast.ft_policies.costs.prices import WEIGHTS
    from holdfast.orchestration.cli.views import scenarios

    if stream is None and options.uses_measurements:
        stream = _measured_here(term)
    if stream is None:
        config = None if options.ranked_by in WEIGHTS else term.load_config()
        return options, options.scenario(options.defaults().system, config), None
    with term.open_project() as project:
        fitted = scenarios.fit_system(project, stream)
        options = options.with_defaults_of(fitted.declared)
        scenario = options.scenario(fitted.system, project.config)
        return options, replace(scenario, allowed=fitted.allowed), fitted


def _measured_here(term: Terminal) -> str | None:
    """The only stream with measurements; prints whose measurements are used."""
    stream = _find_started(term)
    if stream is None:
        origin = "Holdfast's own benchmark; give --stream STREAM for those of a stream"
    else:
        origin = f"{stream}, the only stream started in this project"
    term.err.print(f"{NOTE} measurements from {origin}", soft_wrap=True)
    return stream


def _find_started(term: Terminal) -> str | None:
    from holdfast.orchestration.cli.views.scenarios import find_only_started

    try:
        has_project = (term.root() / "configs" / "streams").is_dir()
    except PermanentError:
        has_project = False
    if not has_project:  # a simulation needs none
        return None
    with term.open_project() as project:
        return find_only_started(project)


def _run(term: Terminal, scenario: "Scenario", plot: Path | None) -> "tuple[Outcome, ...]":
    from holdfast.ft_policies.simulator.engine import simulate as run
    from holdfast.orchestration.cli.views.simulation import Timeline, draw

    timeline = Timeline(scenario)
    with term.spinner("simulating") as change:
        kept = timeline if plot is not None and timeline.wanted else None
        outcomes = run(scenario, _report_progress(change, kept))
    if plot is not None:
        draw(outcomes, timeline, plot)
    return outcomes


def _report_progress(
    change: "Callable[[str], None]", timeline: "Timeline | None"
) -> "Callable[[SimulationProgress], None]":
    def report(progress: "SimulationProgress") -> None:
        change(f"simulating: {progress.done:.0%}")
        if timeline is not None:
            timeline.add(progress)

    return report


def _facts(
    options: "SimulationOptions",
    scenario: "Scenario",
    fitted: "FittedSystem | None",
    outcomes: "Sequence[Outcome]",
) -> dict[str, Any]:
    return {
        "preset": options.preset,
        "streams": options.streams,
        "seconds": scenario.seconds,
        "tick_seconds": scenario.system.tick_seconds,
        "ranked_by": options.ranked_by,
        "guarantee": scenario.guarantee,
        "failures_per_day": options.failures_per_day,
        "seed": options.seed,
        "stream": None if fitted is None else fitted.declared.name,
        "assumed_steps": () if fitted is None else fitted.assumed,
        "outcomes": [asdict(outcome) for outcome in outcomes],
    }


def _show(
    term: Terminal,
    scenario: "Scenario",
    outcomes: "Sequence[Outcome]",
    ranked_by: str,
) -> None:
    from holdfast.orchestration.cli.views.simulation import outcome_table

    priced = outcomes[0].money is not None
    term.out.print(outcome_table(outcomes))
    term.out.print(
        f"{DONE} {fmt.plural(scenario.trace.streams, 'stream')}, {fmt.age(scenario.seconds)} "
        f"in ticks of {scenario.system.tick_seconds:g} s, ranked by {ranked_by}; "
        "shares of what permanent active_replication adds"
        + ("; money per stream and hour" if priced else "")
    )
    doubles = max(outcome.double_misses for outcome in outcomes)
    if doubles:
        term.out.print(
            f"{NOTE} up to {doubles} of the misses: second failure before the new secondary was ready"
        )
