"""When a stream was in which tier: the spans of time that its costs are counted over."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from holdfast.ft_policies.tiers import Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request for a tier, and when the replicas had reached it."""

    tier: Tier
    at: float
    reached_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TierSpan:
    """A stretch of time in one tier."""

    tier: Tier
    from_at: float
    to_at: float

    @property
    def seconds(self) -> float:
        return self.to_at - self.from_at


def tier_spans(
    asked: Sequence[Asked],
    lives: Sequence[tuple[float, float]],
    *,
    from_at: float,
    to_at: float,
) -> list[TierSpan]:
    """The tiers of a stream between two moments, while any of its replicas lived.

    `asked` is in the order of time. While a change is under way, the stronger of its two tiers
    counts: its replicas are there already, or still.
    """
    periods = merged((max(start, from_at), min(end, to_at)) for start, end in lives)
    return [
        TierSpan(tier=tier, from_at=max(began, start), to_at=min(ended, end))
        for start, end in periods
        for tier, began, ended in _in_effect(asked, to_at)
        if max(began, start) < min(ended, end)
    ]


def merged(periods: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The same time as periods that do not overlap, oldest first; empty ones are left out."""
    apart: list[tuple[float, float]] = []
    for start, end in sorted(period for period in periods if period[0] < period[1]):
        if apart and start <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(apart[-1][1], end))
        else:
            apart.append((start, end))
    return apart


def _in_effect(asked: Sequence[Asked], to_at: float) -> Iterator[tuple[Tier, float, float]]:
    begun = list(_begun(asked, to_at))
    ends = [*(at for _, at in begun[1:]), to_at]
    for (tier, began), ended in zip(begun, ends, strict=False):
        yield tier, began, ended


def _begun(asked: Sequence[Asked], to_at: float) -> Iterator[tuple[Tier, float]]:
    """When each tier came into effect; one that was superseded before it was reached never did."""
    before: Tier | None = None
    for request, next_at in _with_next(asked, to_at):
        if before is None or request.tier.strength >= before.strength:
            began = request.at
        elif request.reached_at is not None and request.reached_at <= next_at:
            began = request.reached_at
        else:
            continue
        before = request.tier
        yield request.tier, began


def _with_next(asked: Sequence[Asked], to_at: float) -> Iterator[tuple[Asked, float]]:
    for request, following in pairwise(asked):
        yield request, following.at
    if asked:
        yield asked[-1], to_at
