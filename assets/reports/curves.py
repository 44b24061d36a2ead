"""The cost of other objectives: the points of the curve as rows of a table."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from assets.reports.rows import finite
from ft_policies.costs.report import Cell
from ft_policies.tiering.decision import WhatIf
from streaming.world import World

OBJECTIVES: tuple[float, ...] = tuple(float(seconds) for seconds in range(0, 61, 2))
AskWhatIf: TypeAlias = Callable[[World, str, Sequence[float]], Sequence[WhatIf]]


def currency_of(world: World, stream: str) -> str:
    """The currency of the price list that a stream declares."""
    return world.prices(world.project.stream(stream)).currency


def cells(points: Sequence[WhatIf], *, currency: str) -> list[dict[str, Cell]]:
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


def rows(curves: Mapping[str, Sequence[WhatIf]], world: World) -> list[dict[str, Cell]]:
    """The points of several streams as rows of a table."""
    return [
        {"stream": stream, **row}
        for stream, points in curves.items()
        for row in cells(points, currency=currency_of(world, stream))
    ]
