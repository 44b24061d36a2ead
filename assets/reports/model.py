"""The report on the recovery model: the predicted and the measured time of each step."""

from collections.abc import Sequence
from statistics import median

import dagster as dg

from holdfast.assets.keys import report_key, stream_key
from holdfast.assets.project_resource import ProjectResource, dagster_errors
from holdfast.assets.reports.plots import draw_recoveries
from holdfast.assets.reports.table_report import Materialized, picture, table
from holdfast.ft_policies.costs.report import Cell
from holdfast.ft_policies.prediction.past import PastPrediction
from holdfast.observation.measurements import measure
from holdfast.observation.reports.files import write_report
from holdfast.observation.reports.recoveries import build_comparison, predict_recoveries

REPORT = "recovery_model"
TITLE = "Recoveries: predicted against observed"


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
                recovery
                for name in streams
                for recovery in predict_recoveries(
                    project.store, project.config.stream(name), measured[name]
                )
            ]
            rows = [row for recovery in recoveries for row in build_comparison(recovery)]
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


def _held_share(recoveries: Sequence[PastPrediction]) -> dict[str, float]:
    """The share of recoveries that took no longer than predicted; nothing without recoveries."""
    held = [recovery.recovered.seconds <= recovery.seconds for recovery in recoveries]
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
