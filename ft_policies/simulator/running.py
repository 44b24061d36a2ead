"""Runs the controller over a trace: load, predictions, costs, choice, failures, tick by tick.

All streams at once, and all objectives beside each other on the same load and the same failures.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ft_policies.costs import ALL_COSTS, Prices, Weights, weighted
from ft_policies.simulator.fleet import Fleet
from ft_policies.simulator.planes import Formula, quick
from ft_policies.simulator.presets import Preset
from ft_policies.simulator.results import Account, Outcome, outcomes
from ft_policies.simulator.states import FloatArray, Trend
from ft_policies.simulator.traces import DAY_SECONDS, Block, Trace
from ft_policies.tiers import Guarantee

Ranking: TypeAlias = Weights | Prices


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What is simulated: a system under a load, with objectives to hold.

    Tiers are ranked by weights or by money; `prices` tells what it cost in any case.
    """

    preset: Preset
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
        return max(1, round(self.seconds / self.preset.tick_seconds))

    @property
    def precise(self) -> bool:
        """Whether rows are replayed after a failure."""
        return self.guarantee is not Guarantee.GAP


def simulate(
    scenario: Scenario, progress: Callable[[float], None] = lambda done: None
) -> tuple[Outcome, ...]:
    """What comes of each objective; `progress` is told which share is done."""
    run = _Run(scenario)
    for block in scenario.trace.blocks(scenario.ticks, scenario.preset.tick_seconds):
        run.through(block)
        progress(run.ticks / scenario.ticks)
    return outcomes(
        scenario.preset, scenario.objectives, run.account, run.fleet, scenario.prices
    )


class _Run:
    """A simulation under way."""

    def __init__(self, scenario: Scenario) -> None:
        preset, streams = scenario.preset, scenario.trace.streams
        self._scenario, self._preset = scenario, preset
        self._objectives = len(scenario.objectives)
        self._rows = np.arange(self._objectives * streams)
        self._predicted, self._cost = _formulas(scenario)
        self._trend = Trend(preset.change_seconds, preset.tick_seconds)
        self._failures = _Failures(scenario)
        self._kept_share = 0.5 ** (preset.tick_seconds / preset.forgets_seconds)
        self._enough = np.zeros(self._rows.size, dtype=bool)
        self.ticks = 0
        intervals = len(preset.snapshot_every)
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
        preset, fleet = self._preset, self.fleet
        now = self.ticks * preset.tick_seconds
        self.ticks += 1
        if now >= preset.learns_seconds:
            self._enough[:] = True
        if preset.looks_ahead:
            predicted = self._predicted(*self._trend.ahead(rate, state))
        else:
            predicted = self._predicted(rate, state)
        cost = self._cost(rate, state)
        situation = fleet.situation(predicted, cost, enough=self._enough)
        fleet.move(
            preset.policy.choose(situation), now=now, change_seconds=preset.change_seconds
        )
        self.account.cost[0] += cost[self._rows, fleet.interval, fleet.tier]
        self.account.cost[1] += cost[:, -1, 0]
        fleet.pass_time(preset.tick_seconds, kept_share=self._kept_share)
        self._failures.strike(fleet, rate, state, now + preset.tick_seconds)


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
                change_seconds=self._scenario.preset.change_seconds,
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
        preset = self._scenario.preset
        objectives = len(self._copies)
        phase = np.tile(self._chance.random(failed), objectives)
        luck = np.tile(self._chance.standard_normal(failed), objectives)
        snapshot_every = np.array(preset.snapshot_every)[fleet.interval[rows]]
        sync_every = np.array(preset.sync_every)[fleet.interval[rows]]
        foreseen = preset.recoveries.seconds(
            preset.load(rate[rows], state[rows]),
            snapshot_age=phase * snapshot_every + preset.ship_seconds,
            sync_age=phase * sync_every + preset.ship_seconds,
            precise=self._scenario.precise,
        )
        return foreseen * preset.noise(luck)[:, np.newaxis]

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
    preset = scenario.preset
    snapshot_every, sync_every = np.array(preset.snapshot_every), np.array(preset.sync_every)

    def predicted(rates: FloatArray, states: FloatArray) -> FloatArray:
        return preset.recoveries.seconds(
            preset.load(rates[:, np.newaxis], states[:, np.newaxis]),
            snapshot_age=snapshot_every + preset.ship_seconds,
            sync_age=sync_every + preset.ship_seconds,
            precise=scenario.precise,
        )

    def cost(rates: FloatArray, states: FloatArray) -> FloatArray:
        state = states[:, np.newaxis]
        primary = preset.work.usage(rates[:, np.newaxis], state)
        added = preset.overheads.of(
            primary, state_bytes=state, snapshot_every=snapshot_every, sync_every=sync_every
        )
        if isinstance(scenario.rank_by, Prices):
            return scenario.rank_by.per_hour(added)
        return weighted(added, primary, scenario.rank_by)

    usual = preset.usual_rows_per_second
    state = usual * preset.state.window_seconds * preset.state.bytes_per_row
    return quick(predicted, rate=usual, state=state), quick(cost, rate=usual, state=state)
