"""The results of a simulation, by objective.

The overhead of the tiers grows linearly with rate and state. So the use of resources in a tier is that of the
mean load there, times the time in the tier: it is enough to add up time, rates and states.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from holdfast.ft_policies.costs.prices import SECONDS_OF_AN_HOUR, Prices, Usage
from holdfast.ft_policies.prediction.steps import TIERS, FloatArray
from holdfast.ft_policies.simulator.fleet import Fleet
from holdfast.ft_policies.simulator.system import RESOURCES, System
from holdfast.ft_policies.tiers import Tier

_USES = (*RESOURCES.values(), "puts_per_second", "gets_per_second", "stored_bytes")
_FASTEST, _CHEAPEST = 0, len(TIERS) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """What fault tolerance cost per hour and stream, and what it would have cost in one tier all the time."""

    currency: str
    per_hour: float
    always_active_replication: float
    always_passive_replication: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result for one objective, over all streams."""

    objective_seconds: float
    time_share: Mapping[Tier, float]
    overhead: Mapping[str, float]
    """By resource, as a share of what `active_replication` all the time adds."""
    cost: float
    """The mean cost, in the unit by which tiers were ranked."""
    cost_share: float
    """The same as a share of the cost of `active_replication` all the time."""
    money: Money | None
    failures: int
    misses: int
    double_misses: int
    """Misses of failures before there was a new secondary; no tier would have helped."""
    switches_per_hour: float
    """Per stream."""


class Account:
    """Adds up ticks, rates and states by objective, tier and interval, and the cost of each row.

    A row is a stream with an objective. Costs are added up tick by tick: with weights they are not linear.
    """

    def __init__(self, objectives: int, streams: int, intervals: int) -> None:
        self._cells = (objectives, len(TIERS), intervals)
        self._first = np.repeat(np.arange(objectives) * len(TIERS) * intervals, streams)
        self.ticks, self.rates, self.states = (np.zeros(self._cells) for _ in range(3))
        self._rows = np.arange(objectives * streams)
        self.cost_held, self.cost_if_active = (np.zeros(self._rows.size) for _ in range(2))

    def charge(
        self, cost: FloatArray, tiers: NDArray[np.intp], intervals: NDArray[np.intp]
    ) -> None:
        """Add one tick: the actual cost, and that of `active_replication` at the longest interval."""
        self.cost_held += cost[self._rows, intervals, tiers]
        self.cost_if_active += cost[:, -1, _FASTEST]

    def add(
        self,
        tiers: NDArray[np.intp],
        intervals: NDArray[np.intp],
        rates: FloatArray,
        states: FloatArray,
    ) -> None:
        """Add some ticks of all streams, each (ticks, objectives x streams)."""
        cell = (self._first + tiers * self._cells[2] + intervals).ravel()
        self.ticks += self._count(cell, None)
        self.rates += self._count(cell, rates.ravel())
        self.states += self._count(cell, states.ravel())

    def _count(self, cell: NDArray[np.intp], amounts: FloatArray | None) -> FloatArray:
        size = int(np.prod(self._cells))
        counted = np.bincount(cell, weights=amounts, minlength=size)
        return counted.astype(np.float64).reshape(self._cells)


def outcomes(
    system: System,
    objectives: Sequence[float],
    account: Account,
    fleet: Fleet,
    prices: Prices | None,
) -> tuple[Outcome, ...]:
    """One outcome for each objective."""
    count = len(objectives)
    used, always = _compute_used(system, account)
    held, if_active = (
        cost.reshape(count, -1).sum(axis=1) for cost in (account.cost_held, account.cost_if_active)
    )
    ticks = account.ticks.sum(axis=(1, 2))
    stream_hours = ticks * system.tick_seconds / SECONDS_OF_AN_HOUR
    counted = {
        name: getattr(fleet, name).reshape(count, -1).sum(axis=1)
        for name in ("failures", "misses", "double_misses", "switches", "billed_hours")
    }
    return tuple(
        Outcome(
            objective_seconds=objective,
            time_share=_by_tier(account.ticks[i].sum(axis=1) / ticks[i]),
            overhead={
                name: _share(getattr(used, field)[i], getattr(always, field)[i, _FASTEST])
                for name, field in RESOURCES.items()
            },
            cost=float(held[i] / ticks[i]),
            cost_share=_share(held[i], if_active[i]),
            money=_money(
                prices, used, always, i, float(counted["billed_hours"][i] / stream_hours[i])
            ),
            failures=int(counted["failures"][i]),
            misses=int(counted["misses"][i]),
            double_misses=int(counted["double_misses"][i]),
            switches_per_hour=float(counted["switches"][i] / stream_hours[i]),
        )
        for i, objective in enumerate(objectives)
    )


def _compute_used(system: System, account: Account) -> tuple[Usage, Usage]:
    """The mean overhead: of the tiers as they were chosen (objectives,), and of each tier all the time.

    One tier all the time has the longest interval, which costs the least.
    """
    ticks = account.ticks.sum(axis=(1, 2), keepdims=True)
    rates, states = (
        total.sum(axis=(1, 2), keepdims=True) for total in (account.rates, account.states)
    )
    always = _overhead(system, rates, states, ticks)
    held = _overhead(system, account.rates, account.states, account.ticks)
    share = (account.ticks / ticks).swapaxes(1, 2)
    own = {use: np.diagonal(held[use], axis1=1, axis2=3) for use in _USES}
    return (
        Usage(**{use: (own[use] * share).sum(axis=(1, 2)) for use in _USES}),
        Usage(**{use: always[use][:, 0, -1] for use in _USES}),
    )


def _overhead(
    system: System, rates: FloatArray, states: FloatArray, ticks: FloatArray
) -> dict[str, FloatArray]:
    """At the mean loads of (objectives, tiers covered, intervals): with one more axis for the tier."""
    rate, state = (total / np.maximum(ticks, 1.0) for total in (rates, states))
    usage = system.overhead(rate, state)
    shape = (*rate.shape[:2], len(system.snapshot_every), len(TIERS))
    return {use: np.broadcast_to(getattr(usage, use), shape) for use in _USES}


def _money(
    prices: Prices | None, used: Usage, always: Usage, objective: int, billed: float
) -> Money | None:
    if prices is None:
        return None
    mine = Usage(**{use: getattr(used, use)[objective] for use in _USES})
    if prices.started_hours:
        mine = replace(mine, instances=billed)
    all_the_time = prices.per_hour(Usage(**{use: getattr(always, use)[objective] for use in _USES}))
    return Money(
        currency=prices.currency,
        per_hour=float(prices.per_hour(mine)),
        always_active_replication=float(all_the_time[_FASTEST]),
        always_passive_replication=float(all_the_time[_CHEAPEST]),
    )


def _by_tier(values: FloatArray) -> Mapping[Tier, float]:
    return dict(zip(TIERS, values.tolist(), strict=True))


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole else 0.0
