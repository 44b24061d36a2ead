"""The rows of the what-if report: the cost of other objectives, as the tier review computes them."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from holdfast.ft_policies.costs.report import Cell
from holdfast.ft_policies.tiering.decision import WhatIf
from holdfast.observation.reports.files import finite_or_none
from holdfast.resources.project import Project

OBJECTIVES: tuple[float, ...] = tuple(float(seconds) for seconds in range(0, 61, 2))
AskWhatIf: TypeAlias = Callable[[Project, str, Sequence[float]], Sequence[WhatIf]]


def currency_of(project: Project, stream: str) -> str:
    """The currency of the price list that a stream declares."""
    return project.prices(project.config.stream(stream)).currency


def what_if_cells(points: Sequence[WhatIf], *, currency: str) -> list[dict[str, Cell]]:
    """The points of one stream as rows of a table."""
    return [
        {
            "objective_seconds": point.objective_seconds,
            "tier": point.tier.value,
            "holds": point.holds,
            "predicted_seconds": finite_or_none(point.seconds),
            "money_per_hour": finite_or_none(point.money_per_hour),
            "currency": currency,
            "units": finite_or_none(point.weighted),
            "snapshot_every_seconds": finite_or_none(point.snapshot_every),
            "sync_every_seconds": finite_or_none(point.sync_every),
        }
        for point in points
    ]


def what_if_rows(curves: Mapping[str, Sequence[WhatIf]], project: Project) -> list[dict[str, Cell]]:
    """The points of several streams as rows of a table."""
    return [
        {"stream": stream, **row}
        for stream, points in curves.items()
        for row in what_if_cells(points, currency=currency_of(project, stream))
    ]
