"""The report on the recovery model: the predicted and the measured time of each step."""

from collections.abc import Sequence
from functools import partial
from statistics import median

import dagster as dg

from assets.failures import explained
from assets.keys import report_key, stream_key
from assets.reports import suites
from assets.reports.checking import Materialized, expectations_of, judge
from assets.reports.days import spans_of
from assets.reports.plots import draw_recoveries
from assets.reports.recoveries import Compared, compared, recoveries
from assets.reports.showing import picture, table
from assets.reports.storing import store
from assets.worlds import Worlds
from ft_policies.costs.report import Cell
from ft_policies.prediction.model import RecoveryModel
from streaming.measuring import StreamMeasurements, measure
from streaming.step_history import with_promises
from streaming.world import World

REPORT = "recovery_model"
TITLE = "Recoveries: predicted against observed"
MOST_RECOVERIES = 100  # of a stream, the newest: each is predicted anew


def definition(streams: Sequence[str]) -> dg.AssetsDefinition:
    """The report over these streams."""

    @dg.asset(
        key=report_key(REPORT),
        deps=[stream_key(name) for name in streams],
        group_name="reports",
        kinds={"table"},
        description="How well recoveries are predicted: each measured recovery beside the prediction "
        "from earlier measurements, in total and step by step, and a summary by tier.",
        check_specs=[
            expectations_of(
                REPORT, "At least 95 % of the recoveries took no longer than predicted."
            )
        ],
    )
    def recovery_model(worlds: dg.ResourceParam[Worlds]) -> Materialized:
        with explained(), worlds.open() as world:
            measured = measure(world.store, [world.project.stream(name) for name in streams])
            pairs = [pair for name in streams for pair in compared_of(world, measured[name])]
            rows = [row for pair in pairs for row in pair.cells()]
            png = draw_recoveries(pairs, TITLE)
            file = store(world.project.home, REPORT, rows, png)
        return dg.MaterializeResult(
            metadata={
                "by_tier_and_step": table(summary(rows)),
                "recoveries": table(rows),
                "dagster/row_count": len(rows),
                "plot": picture(png, TITLE),
                "file": dg.MetadataValue.path(file),
            },
            check_results=[judge(rows, suites.recoveries)],
        )

    return recovery_model


def compared_of(world: World, measured: StreamMeasurements) -> list[Compared]:
    """The newest recoveries of a stream whose measurements are still kept, with their predictions."""
    if not measured.recoveries:
        return []
    declared = world.project.stream(measured.stream)
    counts = declared.controller.count_detection
    recovered = recoveries(
        declared.name,
        measured.recoveries[-MOST_RECOVERIES:],
        measured.step_timings,
        spans_of(world.store, declared.name, until=measured.at),
        count_detection=counts,
    )
    supervision = declared.supervision
    promised = partial(with_promises, lease=supervision.lease, heartbeat=supervision.heartbeat)
    model = RecoveryModel(count_detection=counts)
    capacity = float(measured.load.capacity_rows_per_second)
    return compared(recovered, measured.step_timings, model, promised, capacity=capacity)


def summary(rows: Sequence[dict[str, Cell]]) -> list[dict[str, Cell]]:
    """By tier and step: how often the prediction held, and the medians of both."""
    groups: dict[tuple[Cell, Cell], list[dict[str, Cell]]] = {}
    for row in rows:
        groups.setdefault((row["tier"], row["step"]), []).append(row)
    return [
        {
            "tier": tier,
            "step": step,
            "recoveries": len(of_group),
            "held_share": sum(bool(row["held"]) for row in of_group) / len(of_group),
            "median_predicted_seconds": median(_seconds(of_group, "predicted_seconds")),
            "median_observed_seconds": median(_seconds(of_group, "observed_seconds")),
        }
        for (tier, step), of_group in sorted(groups.items(), key=str)
    ]


def _seconds(rows: Sequence[dict[str, Cell]], name: str) -> list[float]:
    return [float(row[name] or 0.0) for row in rows]
