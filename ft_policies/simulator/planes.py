"""A formula over rate and state, asked at every tick: as a plane, where it is one.

Recovery times and costs mostly grow by line with rate and state. Such a formula is asked at a few loads,
and from then on is one small matrix product a tick, with the streams as the long axis; nothing is written
down twice. One that is no plane is asked each time.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from ft_policies.recovery_model import FloatArray

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
