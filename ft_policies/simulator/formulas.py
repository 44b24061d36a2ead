"""Predictions and costs of a system over rate and state: (n, intervals, tiers) for n loads.

The simulator evaluates them at every tick. Recovery times and costs mostly grow linearly with rate and
state: such a formula is evaluated at a few loads and then replaced by a plane, one small matrix product per
tick with the streams as the long axis. A formula that is not a plane is evaluated each time.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from holdfast.ft_policies.costs.prices import Prices, Usage, Weights, weigh_cost
from holdfast.ft_policies.prediction.steps import TIERS, FloatArray
from holdfast.ft_policies.simulator.system import RESOURCES, System

Formula: TypeAlias = Callable[[FloatArray, FloatArray], FloatArray]
"""Of (rates, states), each (n,): an array (n, intervals, tiers)."""


class Plane:
    """A formula as a plane, from its values at no load, at a rate and at a state."""

    def __init__(self, corners: FloatArray, rate: float, state: float) -> None:
        none, of_rate, of_state = corners
        self._shape = none.shape
        slopes = (none, (of_rate - none) / rate, (of_state - none) / state)
        self._slopes = np.stack([slope.ravel() for slope in slopes], axis=1)
        self._loads = np.ones((3, 0))
        self._values = np.ones((0, 0))

    def __call__(self, rates: FloatArray, states: FloatArray) -> FloatArray:
        """The values at these loads; the next call reuses the array."""
        if self._loads.shape[1] != len(rates):
            self._loads = np.ones((3, len(rates)))
            self._values = np.empty((len(self._slopes), len(rates)))
        self._loads[1], self._loads[2] = rates, states
        np.matmul(self._slopes, self._loads, out=self._values)
        return self._values.T.reshape(len(rates), *self._shape)


def simplify(formula: Formula, *, rate: float, state: float) -> Formula:
    """Replace the formula by a plane if it is one from no load to a hundred times these loads."""
    rates = np.array([0.0, 1.0, 0.0, 1.0, 100.0, 1.0, 0.01]) * rate
    states = np.array([0.0, 0.0, 1.0, 1.0, 1.0, 100.0, 0.01]) * state
    values = formula(rates, states)
    if not np.isfinite(values).all():
        return formula
    plane = Plane(values[:3], rate, state)
    rounding = 1e-12 * float(np.abs(values).max())
    same = np.allclose(plane(rates, states), values, rtol=1e-9, atol=rounding)
    return plane if same else formula


Ranking: TypeAlias = Weights | Prices
"""What tiers are ranked by: resources in units of the primary, or money."""


def predictions(system: System, *, precise: bool) -> Formula:
    """Seconds of a recovery on the oldest state that a failure can find."""
    ages = system.ages(np.arange(len(system.snapshot_every)))

    def predict(rates: FloatArray, states: FloatArray) -> FloatArray:
        load = system.load(rates[:, np.newaxis], states[:, np.newaxis])
        seconds = system.recoveries.seconds(load, ages, precise=precise)
        return _whole(system, rates, seconds)

    return _simplify(system, predict)


def costs(system: System, rank_by: Ranking) -> Formula:
    """What fault tolerance costs: money is a plane; weights are not, but the resources are."""
    if isinstance(rank_by, Prices):
        return _simplify(
            system,
            lambda rates, states: _whole(
                system, rates, rank_by.per_hour(_compute_overhead(system, rates, states))
            ),
        )
    parts = {
        use: _resource(system, use) for name, use in RESOURCES.items() if getattr(rank_by, name)
    }

    def cost(rates: FloatArray, states: FloatArray) -> FloatArray:
        added = Usage(**{use: part(rates, states) for use, part in parts.items()})
        primary = system.work.usage(rates[:, np.newaxis], states[:, np.newaxis])
        return _whole(system, rates, weigh_cost(added, primary, rank_by))

    return cost


def _resource(system: System, use: str) -> Formula:
    return _simplify(
        system,
        lambda rates, states: _whole(
            system, rates, getattr(_compute_overhead(system, rates, states), use)
        ),
    )


def _compute_overhead(system: System, rates: FloatArray, states: FloatArray) -> Usage:
    return system.overhead(rates[:, np.newaxis], states[:, np.newaxis])


def _whole(system: System, rates: FloatArray, values: FloatArray) -> FloatArray:
    return np.broadcast_to(values, (len(rates), len(system.snapshot_every), len(TIERS)))


def _simplify(system: System, formula: Formula) -> Formula:
    rate = system.usual_rows_per_second
    return simplify(formula, rate=rate, state=rate * system.state.bytes_per_rate)
