"""The report on the recovery model: the predicted and the measured time of each step."""

from collections.abc import Sequence
from functools import partial
from statistics import median

import dagster as dg

from holdfast.assets.keys import report_key, stream_key
from holdfast.assets.project_resource import ProjectResource, dagster_errors
from holdfast.assets.reports.plots import draw_recoveries
from holdfast.assets.reports.table_report import Materialized, picture, table
from holdfast.ft_policies.costs.report import Cell
from holdfast.ft_policies.prediction.model import RecoveryModel
from holdfast.observation.measurements import StreamMeasurements, measure
from holdfast.observation.recovery_history import add_promises
from holdfast.observation.reports.costs import read_tier_spans
from holdfast.observation.reports.files import write_report
from holdfast.observation.reports.recoveries import (
    RecoveryComparison,
    compare_recoveries,
    match_recoveries,
)
from holdfast.resources.project import Project

REPORT = "recovery_model"
TITLE = "Recoveries: predicted against observed"
MOST_RECOVERIES = 100  # of a stream, the newest: each needs a new prediction


def definition(streams: Sequence[str]) -> dg.AssetsDefinition:
    """The report over these streams."""

    @dg.asset(
        key=report_key(REPORT),
        deps=[stream_key(name) for name in streams],
        group_name="reports",
        kinds={"table"},
        description="The accuracy of the recovery model: each measured recovery beside its prediction from "
        "earlier measurements, as a whole and by step, with a summary by tier and step.",
    )
    def recovery_model(projects: dg.ResourceParam[ProjectResource]) -> Materialized:
        with dagster_errors(), projects.open() as project:
            measured = measure(project.store, [project.config.stream(name) for name in streams])
            recoveries = [
                recovery for name in streams for recovery in compare_stream(project, measured[name])
            ]
            rows = [row for recovery in recoveries for row in recovery.cells()]
            png = draw_recoveries(recoveries, TITLE)
            file = write_report(project.config.home, REPORT, rows, png)
        return dg.MaterializeResult(
            metadata={
                **_held_share(recoveries),
                "by_tier_and_step": table(summarize(rows)),
                "recoveries": table(rows),
                "dagster/row_count": len(rows),
                "plot": picture(png, TITLE),
                "file": dg.MetadataValue.path(file),
            },
        )

    return recovery_model


def compare_stream(project: Project, measured: StreamMeasurements) -> list[RecoveryComparison]:
    """Compare the newest recoveries of a stream with their predictions, as far as measurements are kept."""
    if not measured.recoveries:
        return []
    declared = project.config.stream(measured.stream)
    counts = declared.controller.count_detection
    recovered = match_recoveries(
        declared.name,
        measured.recoveries[-MOST_RECOVERIES:],
        measured.step_timings,
        read_tier_spans(project.store, declared.name, until=measured.at),
        count_detection=counts,
    )
    promised = partial(add_promises, timings=declared.supervision.timings())
    model = RecoveryModel(count_detection=counts)
    capacity = float(measured.load.capacity_rows_per_second)
    return compare_recoveries(recovered, measured.step_timings, model, promised, capacity=capacity)


def _held_share(recoveries: Sequence[RecoveryComparison]) -> dict[str, float]:
    """The share of recoveries that took no longer than predicted; nothing without recoveries."""
    held = [recovery.observed_seconds <= recovery.predicted_seconds for recovery in recoveries]
    return {"held_share": sum(held) / len(held)} if held else {}


def summarize(rows: Sequence[dict[str, Cell]]) -> list[dict[str, Cell]]:
    """The share of predictions that held, and the median times, by tier and step."""
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
