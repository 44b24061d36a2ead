"""When a stream was in which tier: the periods over which its costs are counted."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from holdfast.ft_policies.tiers import Tier


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
    """The tiers of a stream between two points in time, while any of its replicas lived.

    `requests` are in the order of time. While a change is under way, the stronger of its two tiers
    counts, because its replicas already run, or still run.
    """
    periods = merge_periods((max(start, from_at), min(end, to_at)) for start, end in lives)
    return [
        TierSpan(tier=tier, from_at=max(began, start), to_at=min(ended, end))
        for start, end in periods
        for tier, began, ended in _in_effect(requests, to_at)
        if max(began, start) < min(ended, end)
    ]


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
    starts = list(_effective(requests, to_at))
    ends = [*(at for _, at in starts[1:]), to_at]
    for (tier, began), ended in zip(starts, ends, strict=False):
        yield tier, began, ended


def _effective(requests: Sequence[TierRequest], to_at: float) -> Iterator[tuple[Tier, float]]:
    """When each tier took effect; a request that was superseded before it was reached never did."""
    before: Tier | None = None
    for request, next_at in _with_next(requests, to_at):
        if before is None or request.tier.strength >= before.strength:
            began = request.at
        elif request.reached_at is not None and request.reached_at <= next_at:
            began = request.reached_at
        else:
            continue
        before = request.tier
        yield request.tier, began


def _with_next(
    requests: Sequence[TierRequest], to_at: float
) -> Iterator[tuple[TierRequest, float]]:
    for request, following in pairwise(requests):
        yield request, following.at
    if requests:
        yield requests[-1], to_at
