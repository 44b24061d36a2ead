"""What an objective would cost a stream: the points of the curve, as the tier review prices them."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from holdfast.ft_policies.costs.report import Cell
from holdfast.ft_policies.tiering.decision import WhatIf
from holdfast.observation.reports.files import finite
from holdfast.resources.project import Project

OBJECTIVES: tuple[float, ...] = tuple(float(seconds) for seconds in range(0, 61, 2))
AskWhatIf: TypeAlias = Callable[[Project, str, Sequence[float]], Sequence[WhatIf]]


def currency_of(world: Project, stream: str) -> str:
    """The currency of the price list that a stream declares."""
    return world.prices(world.config.stream(stream)).currency


def what_if_cells(points: Sequence[WhatIf], *, currency: str) -> list[dict[str, Cell]]:
    """The points of one stream as rows of a table."""
    return [
        {
            "objective_seconds": point.objective_seconds,
            "tier": point.tier.value,
            "holds": point.holds,
            "predicted_seconds": finite(point.seconds),
            "money_per_hour": finite(point.money_per_hour),
            "currency": currency,
            "units": finite(point.weighted),
            "snapshot_every_seconds": finite(point.snapshot_every),
            "sync_every_seconds": finite(point.sync_every),
        }
        for point in points
    ]


def what_if_rows(curves: Mapping[str, Sequence[WhatIf]], world: Project) -> list[dict[str, Cell]]:
    """The points of several streams as rows of a table."""
    return [
        {"stream": stream, **row}
        for stream, points in curves.items()
        for row in what_if_cells(points, currency=currency_of(world, stream))
    ]
