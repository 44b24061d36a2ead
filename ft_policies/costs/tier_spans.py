"""When a stream was in which tier: the periods over which its costs are counted."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from holdfast.ft_policies.tiers import SECONDARY, Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class TierRequest:
    """A request for a tier, and when the replicas had reached it."""

    tier: Tier
    at: float
    reached_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TierSpan:
    """A period of time in one tier."""

    tier: Tier
    from_at: float
    to_at: float

    @property
    def seconds(self) -> float:
        return self.to_at - self.from_at


def tier_spans(
    requests: Sequence[TierRequest],
    lives: Sequence[tuple[float, float]],
    *,
    from_at: float,
    to_at: float,
) -> list[TierSpan]:
    """The tiers that the replicas of a stream had between two points in time: what lived counts, not what was wanted.

    `requests` are in the order of time, and `lives` are those of all replicas. One replica is passive replication,
    whatever was requested; two are the tier that was reached last, and at least a deployed secondary.
    """
    if not requests:
        return []
    from_at = max(from_at, requests[0].at)
    clipped = [(max(start, from_at), min(end, to_at)) for start, end in lives]
    in_effect = list(_in_effect(requests, to_at))
    spans: list[TierSpan] = []
    for start, end, count in _count_lives(clipped):
        for tier, began, ended in in_effect:
            if max(began, start) < min(ended, end):
                lived = _with_secondary(tier) if count > 1 else Tier.PASSIVE_REPLICATION
                _append(spans, lived, max(began, start), min(ended, end))
    return spans


def count_switches(requests: Sequence[TierRequest], *, since: float, until: float) -> int:
    """How often another tier was reached between two points in time."""
    reached = [
        request for request, next_at in _with_next(requests, until) if _is_reached(request, next_at)
    ]
    return sum(
        before.tier is not after.tier and since <= (after.reached_at or 0.0) < until
        for before, after in pairwise(reached)
    )


def _count_lives(lives: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float, int]]:
    """Periods with the number of replicas that lived, without those in which none did."""
    changes: Counter[float] = Counter()
    for start, end in lives:
        if start < end:
            changes[start] += 1
            changes[end] -= 1
    count = 0
    for start, end in pairwise(sorted(changes)):
        count += changes[start]
        if count:
            yield start, end, count


def _with_secondary(tier: Tier) -> Tier:
    return tier if SECONDARY[tier].deploy else Tier.DEPLOYED


def _append(spans: list[TierSpan], tier: Tier, from_at: float, to_at: float) -> None:
    """Add a span, or make the last one longer."""
    if spans and spans[-1].tier is tier and spans[-1].to_at == from_at:
        from_at = spans.pop().from_at
    spans.append(TierSpan(tier=tier, from_at=from_at, to_at=to_at))


def merge_periods(periods: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Merge overlapping periods; the result is oldest first, without empty ones."""
    merged: list[tuple[float, float]] = []
    for start, end in sorted(period for period in periods if period[0] < period[1]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _in_effect(
    requests: Sequence[TierRequest], to_at: float
) -> Iterator[tuple[Tier, float, float]]:
    """When each tier was the last that was reached; a request that was superseded before never was."""
    starts = [(Tier.PASSIVE_REPLICATION, requests[0].at)]
    for request, next_at in _with_next(requests, to_at):
        if request.reached_at is not None and _is_reached(request, next_at):
            starts.append((request.tier, request.reached_at))
    ends = [*(at for _, at in starts[1:]), to_at]
    for (tier, began), ended in zip(starts, ends, strict=True):
        yield tier, began, ended


def _is_reached(request: TierRequest, next_at: float) -> bool:
    return request.reached_at is not None and request.reached_at <= next_at


def _with_next(
    requests: Sequence[TierRequest], to_at: float
) -> Iterator[tuple[TierRequest, float]]:
    for request, following in pairwise(requests):
        yield request, following.at
    if requests:
        yield requests[-1], to_at
