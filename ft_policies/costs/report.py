"""The cost of the fault tolerance of a stream in a day, and what one tier all day would have cost.

Costs are what fault tolerance adds to one primary. A day is any period of time: rows of the same stream can
be added up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias

import numpy as np

from holdfast.ft_policies.costs.billing import Span, count_instance_hours
from holdfast.ft_policies.costs.prices import GB, SECONDS_OF_AN_HOUR, Prices, Usage
from holdfast.ft_policies.costs.tier_spans import TierSpan, merge_periods
from holdfast.ft_policies.prediction.steps import TIERS, FloatArray, FloatLike
from holdfast.ft_policies.tiers import SECONDARY, Tier

Cell: TypeAlias = str | int | float | None  # a bool is an int


@dataclass(frozen=True, slots=True, kw_only=True)
class TierCosts:
    """What each tier adds to the primary of a stream, in the order of `TIERS`."""

    overhead: Usage
    units: FloatArray  # the thesis' normalised units: 1 is one more use of one resource
    prices: Prices


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDay:
    """The facts of a stream in a day; spans may reach beyond the day, for hours once started."""

    stream: str
    since: float
    until: float
    spans: Sequence[TierSpan]
    switches: int
    costs: TierCosts
    objective_seconds: float
    recoveries: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRow:
    """A row of the report; `*_if_active` is what `active_replication` all the time would have cost."""

    stream: str
    currency: str
    started_hours: bool
    objective_seconds: float
    tier_seconds: Mapping[Tier, float]
    switches: int
    money: float
    money_if_active: float
    money_if_passive: float
    unit_hours: float
    unit_hours_if_active: float
    unit_hours_if_passive: float
    cpu_core_hours: float
    memory_gb_hours: float
    network_gb: float
    instance_hours: float
    requests: float
    recoveries: int
    misses: int
    slowest_seconds: float | None

    @property
    def ran_seconds(self) -> float:
        return sum(self.tier_seconds.values())

    def share(self, tier: Tier) -> float:
        """The share of its time that the stream was in a tier."""
        ran = self.ran_seconds
        return self.tier_seconds[tier] / ran if ran else 0.0

    @property
    def saved_share(self) -> float | None:
        """How much less was spent than `active_replication` would have cost; `None` if that is free."""
        return 1.0 - self.money / self.money_if_active if self.money_if_active else None

    def cells(self) -> dict[str, Cell]:
        """The row for tables and files: flat, with a unit in each name."""
        return {
            **{name: getattr(self, name) for name in _FLAT},
            "ran_seconds": self.ran_seconds,
            "saved_share": self.saved_share,
            **{f"seconds_{tier}": self.tier_seconds[tier] for tier in TIERS},
            **{f"share_{tier}": self.share(tier) for tier in TIERS},
        }

    @staticmethod
    def of_cells(cells: Mapping[str, Any]) -> "CostRow":
        """The row that has these cells."""
        tier_seconds = {tier: cells[f"seconds_{tier}"] for tier in TIERS}
        return CostRow(tier_seconds=tier_seconds, **{name: cells[name] for name in _FLAT})


_FLAT = tuple(column.name for column in fields(CostRow) if column.name != "tier_seconds")
_SUMMED = (
    "switches", "money", "money_if_active", "money_if_passive",
    "unit_hours", "unit_hours_if_active", "unit_hours_if_passive",
    "cpu_core_hours", "memory_gb_hours", "network_gb", "instance_hours", "requests",
    "recoveries", "misses",
)  # fmt: skip


def cost_row(day: StreamDay) -> CostRow:
    """The costs and recoveries of a stream's day."""
    inside = [_clip(span, day) for span in day.spans]
    inside = [span for span in inside if span.from_at < span.to_at]
    tier_seconds = {
        tier: sum(span.seconds for span in inside if span.tier is tier) for tier in TIERS
    }
    hours = np.array(list(tier_seconds.values())) / SECONDS_OF_AN_HOUR
    prices, usage = day.costs.prices, day.costs.overhead
    deployed = [span for span in day.spans if SECONDARY[span.tier].deploy]
    instance_hours = _billed_hours(day, deployed)
    # What one more instance costs is billed by its hours; everything else goes by the time.
    running = prices.per_hour(replace(usage, instances=0.0))
    requests = _per_tier(usage.puts_per_second) + _per_tier(usage.gets_per_second)
    return CostRow(
        stream=day.stream,
        currency=prices.currency,
        started_hours=prices.started_hours,
        objective_seconds=day.objective_seconds,
        tier_seconds=tier_seconds,
        switches=day.switches,
        money=_sum(hours, running) + instance_hours * prices.instance_hour,
        money_if_active=_sum(_all_in(hours, Tier.ACTIVE_REPLICATION), running)
        + _billed_hours(day, day.spans) * prices.instance_hour,
        money_if_passive=_sum(_all_in(hours, Tier.PASSIVE_REPLICATION), running),
        unit_hours=_sum(hours, day.costs.units),
        unit_hours_if_active=_sum(_all_in(hours, Tier.ACTIVE_REPLICATION), day.costs.units),
        unit_hours_if_passive=_sum(_all_in(hours, Tier.PASSIVE_REPLICATION), day.costs.units),
        cpu_core_hours=_sum(hours, usage.cpu_cores),
        memory_gb_hours=_sum(hours, usage.memory_bytes) / GB,
        network_gb=_sum(hours, usage.network_bytes_per_second) * SECONDS_OF_AN_HOUR / GB,
        instance_hours=instance_hours,
        requests=_sum(hours, requests) * SECONDS_OF_AN_HOUR,
        recoveries=len(day.recoveries),
        misses=sum(seconds > day.objective_seconds for seconds in day.recoveries),
        slowest_seconds=max(day.recoveries, default=None),
    )


def add_up_rows(rows: Sequence[CostRow]) -> CostRow:
    """Add up several days of one stream, in one currency; the objective is that of the last day."""
    slowest = [row.slowest_seconds for row in rows if row.slowest_seconds is not None]
    sums: dict[str, Any] = {name: sum(getattr(row, name) for row in rows) for name in _SUMMED}
    return replace(
        rows[-1],
        tier_seconds={tier: sum(row.tier_seconds[tier] for row in rows) for tier in TIERS},
        slowest_seconds=max(slowest, default=None),
        **sums,
    )


def _clip(span: TierSpan, day: StreamDay) -> TierSpan:
    return replace(span, from_at=max(span.from_at, day.since), to_at=min(span.to_at, day.until))


def _billed_hours(day: StreamDay, spans: Sequence[TierSpan]) -> float:
    """The hours that fall due that day for a secondary that runs in these spans."""
    periods = merge_periods((span.from_at, span.to_at) for span in spans)
    hours = count_instance_hours(
        [Span(start, end) for start, end in periods],
        started_hours=day.costs.prices.started_hours,
        since=day.since,
        until=day.until,
    )
    return hours * float(_per_tier(day.costs.overhead.instances).max())


def _all_in(hours: FloatArray, tier: Tier) -> FloatArray:
    """The same time, all of it in one tier."""
    return np.where([other is tier for other in TIERS], hours.sum(), 0.0)


def _sum(hours: FloatArray, per_hour: FloatLike) -> float:
    return float(hours @ _per_tier(per_hour))


def _per_tier(quantity: FloatLike) -> FloatArray:
    return np.broadcast_to(np.asarray(quantity, dtype=np.float64), (len(TIERS),))
