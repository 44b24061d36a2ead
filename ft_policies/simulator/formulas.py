"""Predictions and costs of a system over rate and state: (n, intervals, tiers) for n loads."""

from typing import TypeAlias

import numpy as np

from ft_policies.costs import Prices, Usage, Weights, weighted
from ft_policies.recovery_model import TIERS, FloatArray
from ft_policies.simulator.planes import Formula, quick
from ft_policies.simulator.systems import RESOURCES, System

Ranking: TypeAlias = Weights | Prices
"""What tiers are ranked by: resources in units of the primary, or money."""


def predictions(system: System, *, precise: bool) -> Formula:
    """Seconds of a recovery on the oldest state that a failure can find."""
    ages = system.ages(np.arange(len(system.snapshot_every)))

    def predicted(rates: FloatArray, states: FloatArray) -> FloatArray:
        load = system.load(rates[:, np.newaxis], states[:, np.newaxis])
        seconds = system.recoveries.seconds(load, ages, precise=precise)
        return _whole(system, rates, seconds)

    return _quick(system, predicted)


def costs(system: System, rank_by: Ranking) -> Formula:
    """What fault tolerance costs: money is a plane; weights are not, but the resources are."""
    if isinstance(rank_by, Prices):
        return _quick(
            system,
            lambda rates, states: _whole(
                system, rates, rank_by.per_hour(_added(system, rates, states))
            ),
        )
    parts = {
        use: _resource(system, use) for name, use in RESOURCES.items() if getattr(rank_by, name)
    }

    def cost(rates: FloatArray, states: FloatArray) -> FloatArray:
        added = Usage(**{use: part(rates, states) for use, part in parts.items()})
        primary = system.work.usage(rates[:, np.newaxis], states[:, np.newaxis])
        return _whole(system, rates, weighted(added, primary, rank_by))

    return cost


def _resource(system: System, use: str) -> Formula:
    return _quick(
        system,
        lambda rates, states: _whole(system, rates, getattr(_added(system, rates, states), use)),
    )


def _added(system: System, rates: FloatArray, states: FloatArray) -> Usage:
    return system.overhead(rates[:, np.newaxis], states[:, np.newaxis])


def _whole(system: System, rates: FloatArray, values: FloatArray) -> FloatArray:
    return np.broadcast_to(values, (len(rates), len(system.snapshot_every), len(TIERS)))


def _quick(system: System, formula: Formula) -> Formula:
    rate = system.usual_rows_per_second
    return quick(formula, rate=rate, state=rate * system.state.bytes_per_rate)
