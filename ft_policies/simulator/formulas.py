"""Predictions and costs of a system over rate and state: (n, intervals, tiers) for n loads.

The simulator evaluates them at every tick. Recovery times and costs mostly grow linearly with rate and
state: such a formula is evaluated at a few loads, and from then on is a plane, one small matrix product a
tick with the streams as the long axis. A formula that is no plane is evaluated each time.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from holdfast.ft_policies.costs.prices import Prices, Usage, Weights, weighted
from holdfast.ft_policies.prediction.steps import TIERS, FloatArray
from holdfast.ft_policies.simulator.system import RESOURCES, System

Formula: TypeAlias = Callable[[FloatArray, FloatArray], FloatArray]
"""Of (rates, states), each (n,): an array (n, intervals, tiers)."""


class Plane:
    """What a formula gives at any load, from what it gives at none, at a rate and at a state."""

    def __init__(self, corners: FloatArray, rate: float, state: float) -> None:
        none, of_rate, of_state = corners
        self._shape = none.shape
        slopes = (none, (of_rate - none) / rate, (of_state - none) / state)
        self._slopes = np.stack([one.ravel() for one in slopes], axis=1)
        self._loads = np.ones((3, 0))
        self._values = np.ones((0, 0))

    def __call__(self, rates: FloatArray, states: FloatArray) -> FloatArray:
        """The values at these loads; the array is used again by the next call."""
        if self._loads.shape[1] != len(rates):
            self._loads = np.ones((3, len(rates)))
            self._values = np.empty((len(self._slopes), len(rates)))
        self._loads[1], self._loads[2] = rates, states
        np.matmul(self._slopes, self._loads, out=self._values)
        return self._values.T.reshape(len(rates), *self._shape)


def quick(formula: Formula, *, rate: float, state: float) -> Formula:
    """The formula as a plane, if it is one from nothing to a hundred times these loads."""
    rates = np.array([0.0, 1.0, 0.0, 1.0, 100.0, 1.0, 0.01]) * rate
    states = np.array([0.0, 0.0, 1.0, 1.0, 1.0, 100.0, 0.01]) * state
    asked = formula(rates, states)
    if not np.isfinite(asked).all():
        return formula
    plane = Plane(asked[:3], rate, state)
    rounding = 1e-12 * float(np.abs(asked).max())
    same = np.allclose(plane(rates, states), asked, rtol=1e-9, atol=rounding)
    return plane if same else formula


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
