"""Failures at random, and what a recovery from each really takes."""

import numpy as np
from numpy.typing import NDArray

from ft_policies.recovery_model import FloatArray
from ft_policies.simulator.fleet import Fleet
from ft_policies.simulator.systems import System
from ft_policies.simulator.traces import DAY_SECONDS


class Failures:
    """A Poisson process for each stream; each objective meets the same failures."""

    def __init__(
        self,
        system: System,
        *,
        precise: bool,
        per_day: float,
        streams: int,
        objectives: int,
        seed: int,
    ) -> None:
        self._system, self._precise, self._per_day = system, precise, per_day
        self._copies = np.arange(objectives) * streams
        self._chance = np.random.default_rng([seed, 1])
        self._next = np.zeros(streams)
        self._draw(np.arange(streams))

    def strike(self, fleet: Fleet, rate: FloatArray, state: FloatArray, now: float) -> None:
        """Let everything fail that is due."""
        while self._soonest <= now:
            due = np.flatnonzero(self._next <= now)
            rows = (self._copies[:, np.newaxis] + due).ravel()
            took = self._seconds(rate[rows], state[rows], fleet.interval[rows])
            fleet.fail(rows, took, now=now, change_seconds=self._system.change_seconds)
            self._draw(due)

    def _seconds(
        self, rate: FloatArray, state: FloatArray, interval: NDArray[np.intp]
    ) -> FloatArray:
        """What each tier would take: the state is of any age, and nothing goes quite as foreseen."""
        system, objectives = self._system, len(self._copies)
        failed = len(rate) // objectives
        phase = np.tile(self._chance.random(failed), objectives)
        luck = np.tile(self._chance.standard_normal(failed), objectives)
        ages = system.ages(interval, phase)
        bound = system.recoveries.seconds(system.load(rate, state), ages, precise=self._precise)
        return system.real(bound, luck[:, np.newaxis])

    def _draw(self, streams: NDArray[np.intp]) -> None:
        """When these fail next."""
        if self._per_day:
            waits = self._chance.exponential(DAY_SECONDS / self._per_day, len(streams))
            self._next[streams] += waits
        else:
            self._next[streams] = np.inf
        self._soonest = float(self._next.min())
