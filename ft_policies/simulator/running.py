"""Runs the controller over a trace: load, predictions, costs, choice, failures, tick by tick.

All streams at once, and all objectives beside each other on the same load and the same failures.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ft_policies.costs import ALL_COSTS, TIERS, Prices, Weights, weighted
from ft_policies.simulator.fleet import Fleet
from ft_policies.simulator.planes import Formula, quick
from ft_policies.simulator.results import Account, Outcome, outcomes
from ft_policies.simulator.states import FloatArray, Trend
from ft_policies.simulator.systems import System
from ft_policies.simulator.traces import DAY_SECONDS, Block, Trace
from ft_policies.tiers import Guarantee

Ranking: TypeAlias = Weights | Prices


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What is simulated: a system under a load, with objectives to hold.

    Tiers are ranked by weights or by money; `prices` tells what it cost in any case.
    """

    system: System
    trace: Trace
    seconds: float
    objectives: tuple[float, ...]
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
    def precise(self) -> bool:
        """Whether rows are replayed after a failure."""
        return self.guarantee is not Guarantee.GAP


def simulate(
    scenario: Scenario, progress: Callable[[float], None] = lambda done: None
) -> tuple[Outcome, ...]:
    """What comes of each objective; `progress` is told which share is done."""
    run = _Run(scenario)
    for block in scenario.trace.blocks(scenario.ticks, scenario.system.tick_seconds):
        run.through(block)
        progress(run.ticks / scenario.ticks)
    return outcomes(scenario.system, scenario.objectives, run.account, run.fleet, scenario.prices)


class _Run:
    """A simulation under way."""

    def __init__(self, scenario: Scenario) -> None:
        system, streams = scenario.system, scenario.trace.streams
        self._scenario, self._system = scenario, system
        self._objectives = len(scenario.objectives)
        self._rows = np.arange(self._objectives * streams)
        self._predicted, self._cost = _formulas(scenario)
        self._trend = Trend(system.change_seconds, system.tick_seconds)
        self._failures = _Failures(scenario)
        self._kept_share = 0.5 ** (system.tick_seconds / system.forgets_seconds)
        self._enough = np.zeros(self._rows.size, dtype=bool)
        self.ticks = 0
        intervals = len(system.snapshot_every)
        self.fleet = Fleet(
            np.repeat(np.array(scenario.objectives, dtype=np.float64), streams),
            intervals=intervals,
            started_hours=isinstance(scenario.rank_by, Prices) and scenario.rank_by.started_hours,
        )
        self.account = Account(self._objectives, streams, intervals)

    def through(self, block: Block) -> None:
        """All ticks of a block; who was where is added up at its end."""
        rates = np.tile(block.rows_per_second, self._objectives)
        states = np.tile(block.state_bytes, self._objectives)
        tiers, intervals = (np.empty(rates.shape, dtype=np.intp) for _ in range(2))
        for at, (rate, state) in enumerate(zip(rates, states, strict=True)):
            self._tick(rate, state)
            tiers[at], intervals[at] = self.fleet.tier, self.fleet.interval
        self.account.add(tiers, intervals, rates, states)

    def _tick(self, rate: FloatArray, state: FloatArray) -> None:
        system, fleet = self._system, self.fleet
        now = self.ticks * system.tick_seconds
        self.ticks += 1
        if now >= system.learns_seconds:
            self._enough[:] = True
        if system.looks_ahead:
            predicted = self._predicted(*self._trend.ahead(rate, state))
        else:
            predicted = self._predicted(rate, state)
        cost = self._cost(rate, state)
        situation = fleet.situation(predicted, cost, enough=self._enough)
        fleet.move(system.policy.choose(situation), now=now, change_seconds=system.change_seconds)
        self.account.cost[0] += cost[self._rows, fleet.interval, fleet.tier]
        self.account.cost[1] += cost[:, -1, 0]
        fleet.pass_time(system.tick_seconds, kept_share=self._kept_share)
        self._failures.strike(fleet, rate, state, now + system.tick_seconds)


class _Failures:
    """Failures at random: a Poisson process for each stream, the same ones for each objective."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._streams = scenario.trace.streams
        self._copies = np.arange(len(scenario.objectives)) * self._streams
        self._chance = np.random.default_rng([scenario.seed, 1])
        self._next = np.zeros(self._streams)
        self._draw(np.arange(self._streams))
        self._soonest = float(self._next.min())

    def strike(self, fleet: Fleet, rate: FloatArray, state: FloatArray, now: float) -> None:
        """All failures until now."""
        while self._soonest <= now:
            failed = np.flatnonzero(self._next <= now)
            rows = (self._copies[:, np.newaxis] + failed).ravel()
            fleet.fail(
                rows,
                lambda rows, count=len(failed): self._seconds(fleet, rows, count, rate, state),
                now=now,
                change_seconds=self._scenario.system.change_seconds,
            )
            self._draw(failed)
            self._soonest = float(self._next.min())

    def _seconds(
        self,
        fleet: Fleet,
        rows: NDArray[np.intp],
        failed: int,
        rate: FloatArray,
        state: FloatArray,
    ) -> FloatArray:
        """What each tier would really take: the state is of any age, and nothing goes quite as foreseen."""
        system = self._scenario.system
        objectives = len(self._copies)
        phase = np.tile(self._chance.random(failed), objectives)
        luck = np.tile(self._chance.standard_normal(failed), objectives)
        snapshot_every = np.array(system.snapshot_every)[fleet.interval[rows]]
        sync_every = np.array(system.sync_every)[fleet.interval[rows]]
        foreseen = system.recoveries.seconds(
            system.load(rate[rows], state[rows]),
            snapshot_age=phase * snapshot_every + system.ship_seconds,
            sync_age=phase * sync_every + system.ship_seconds,
            precise=self._scenario.precise,
        )
        return system.real(foreseen, luck[:, np.newaxis])

    def _draw(self, streams: NDArray[np.intp]) -> None:
        """When each of these fails next."""
        per_day = self._scenario.failures_per_day
        if per_day:
            waits = self._chance.exponential(DAY_SECONDS / per_day, len(streams))
            self._next[streams] += waits
        else:
            self._next[streams] = np.inf


def _formulas(scenario: Scenario) -> tuple[Formula, Formula]:
    """Predictions and costs over rate and state, both (n, intervals, tiers)."""
    system = scenario.system
    snapshot_every, sync_every = np.array(system.snapshot_every), np.array(system.sync_every)

    def predicted(rates: FloatArray, states: FloatArray) -> FloatArray:
        return system.recoveries.seconds(
            system.load(rates[:, np.newaxis], states[:, np.newaxis]),
            snapshot_age=snapshot_every + system.ship_seconds,
            sync_age=sync_every + system.ship_seconds,
            precise=scenario.precise,
        )

    def cost(rates: FloatArray, states: FloatArray) -> FloatArray:
        state = states[:, np.newaxis]
        primary = system.work.usage(rates[:, np.newaxis], state)
        added = system.overheads.of(
            primary, state_bytes=state, snapshot_every=snapshot_every, sync_every=sync_every
        )
        if isinstance(scenario.rank_by, Prices):
            value = scenario.rank_by.per_hour(added)
        else:
            value = weighted(added, primary, scenario.rank_by)
        return np.broadcast_to(value, (len(rates), len(snapshot_every), len(TIERS)))

    usual = system.usual_rows_per_second
    state = usual * system.state.window_seconds * system.state.bytes_per_row
    return quick(predicted, rate=usual, state=state), quick(cost, rate=usual, state=state)
