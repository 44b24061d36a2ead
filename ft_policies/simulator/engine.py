"""Runs the controller over a trace: load, predictions, costs, choice, failures, tick by tick.

All streams run at once, and all objectives in parallel on the same load and the same failures.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.ft_policies.costs.prices import ALL_COSTS, Prices
from holdfast.ft_policies.prediction.steps import TIERS, FloatArray
from holdfast.ft_policies.simulator.fleet import Fleet
from holdfast.ft_policies.simulator.formulas import Ranking, costs, predictions
from holdfast.ft_policies.simulator.results import Account, Outcome, outcomes
from holdfast.ft_policies.simulator.state_size import Trend
from holdfast.ft_policies.simulator.system import System
from holdfast.ft_policies.simulator.traces import DAY_SECONDS, Block, Trace
from holdfast.ft_policies.tiers import Guarantee, Tier


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

    def inject(self, fleet: Fleet, rate: FloatArray, state: FloatArray, now: float) -> None:
        """Fail all streams whose failure is due."""
        while self._soonest <= now:
            due = np.flatnonzero(self._next <= now)
            rows = (self._copies[:, np.newaxis] + due).ravel()
            took = self._seconds(rate[rows], state[rows], fleet.interval[rows])
            fleet.fail(rows, took, now=now, change_seconds=self._system.change_seconds)
            self._draw(due)

    def _seconds(
        self, rate: FloatArray, state: FloatArray, interval: NDArray[np.intp]
    ) -> FloatArray:
        """The recovery time in each tier, with a random age of the state and a random deviation."""
        system, objectives = self._system, len(self._copies)
        failed = len(rate) // objectives
        phase = np.tile(self._chance.random(failed), objectives)
        luck = np.tile(self._chance.standard_normal(failed), objectives)
        ages = system.ages(interval, phase)
        bound = system.recoveries.seconds(system.load(rate, state), ages, precise=self._precise)
        return system.real(bound, luck[:, np.newaxis])

    def _draw(self, streams: NDArray[np.intp]) -> None:
        """Draw the next failure of these streams."""
        if self._per_day:
            waits = self._chance.exponential(DAY_SECONDS / self._per_day, len(streams))
            self._next[streams] += waits
        else:
            self._next[streams] = np.inf
        self._soonest = float(self._next.min())


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What is simulated: a system under a load, with its objectives.

    Tiers are ranked by weights or by prices; with weights, `prices` are still used for the bill.
    """

    system: System
    trace: Trace
    seconds: float
    objectives: tuple[float, ...]
    allowed: tuple[Tier, ...] = TIERS
    guarantee: Guarantee = Guarantee.PRECISE
    rank_by: Ranking = ALL_COSTS
    prices: Prices | None = None
    failures_per_day: float = 0.0
    seed: int = 0

    @property
    def ticks(self) -> int:
        """How often the controller decides."""
        return max(1, round(self.seconds / self.system.tick_seconds))

    @property
    def billed_by(self) -> Prices | None:
        """The prices of the bill, if there are any."""
        return self.rank_by if isinstance(self.rank_by, Prices) else self.prices

    @property
    def precise(self) -> bool:
        """Whether rows are replayed after a failure."""
        return self.guarantee is not Guarantee.GAP


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationProgress:
    """The latest ticks: their load, and the tiers of the streams, (ticks, objectives, streams)."""

    done: float
    """The share of the simulation that is done."""
    load: Block
    tiers: NDArray[np.intp]


def simulate(
    scenario: Scenario, watch: Callable[[SimulationProgress], None] = lambda progress: None
) -> tuple[Outcome, ...]:
    """Simulate each objective; `watch` is called after each block of ticks."""
    run = _Run(scenario)
    for block in scenario.trace.blocks(scenario.ticks, scenario.system.tick_seconds):
        tiers = run.run_block(block)
        by_objective = tiers.reshape(len(tiers), len(scenario.objectives), -1)
        watch(SimulationProgress(done=run.ticks / scenario.ticks, load=block, tiers=by_objective))
    return outcomes(
        scenario.system, scenario.objectives, run.account, run.fleet, scenario.billed_by
    )


class _Run:
    """A simulation under way."""

    def __init__(self, scenario: Scenario) -> None:
        system, streams = scenario.system, scenario.trace.streams
        self._scenario, self._system = scenario, system
        self._objectives = len(scenario.objectives)
        self._predicted = predictions(system, precise=scenario.precise)
        self._cost = costs(system, scenario.rank_by)
        self._trend = Trend(system.change_seconds, system.tick_seconds)
        self._failures = Failures(
            system,
            precise=scenario.precise,
            per_day=scenario.failures_per_day,
            streams=streams,
            objectives=self._objectives,
            seed=scenario.seed,
        )
        self._enough = np.zeros(self._objectives * streams, dtype=bool)
        self.ticks = 0
        intervals, billed_by = len(system.snapshot_every), scenario.billed_by
        self.fleet = Fleet(
            np.repeat(np.array(scenario.objectives, dtype=np.float64), streams),
            allowed=scenario.allowed,
            intervals=intervals,
            started_hours=billed_by is not None and billed_by.started_hours,
        )
        self.account = Account(self._objectives, streams, intervals)

    def run_block(self, block: Block) -> NDArray[np.intp]:
        """Run all ticks of a block, and return the tier of each stream at each tick."""
        load = np.stack((block.rows_per_second, block.state_bytes), 1)
        if self._objectives > 1:
            load = np.tile(load, self._objectives)
        tiers, intervals = (np.empty(load[:, 0].shape, dtype=np.intp) for _ in range(2))
        for at, tick_load in enumerate(load):
            self._tick(tick_load)
            tiers[at], intervals[at] = self.fleet.tier, self.fleet.interval
        self.account.add(tiers, intervals, load[:, 0], load[:, 1])
        passed = len(load) * self._system.tick_seconds
        self.fleet.forget(0.5 ** (passed / self._system.forgets_seconds))
        return tiers

    def _tick(self, load: FloatArray) -> None:
        system, fleet = self._system, self.fleet
        now = self.ticks * system.tick_seconds
        self.ticks += 1
        if now >= system.learns_seconds:
            self._enough[:] = True
        predicted = self._predicted(*(self._trend.ahead(load) if system.looks_ahead else load))
        cost = self._cost(*load)
        candidates = fleet.candidates(predicted, cost, enough=self._enough)
        choice = fleet.choose(candidates, system.policy, now=now)
        fleet.move(choice, now=now, change_seconds=system.change_seconds)
        self.account.charge(cost, fleet.tier, fleet.interval)
        fleet.since_change += system.tick_seconds
        self._failures.inject(fleet, load[0], load[1], now + system.tick_seconds)
