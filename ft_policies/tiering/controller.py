"""Chooses a tier and intervals for each stream: the cheapest that meet the objective, without flapping.

All streams are chosen for at once, in arrays, so that the live review and the simulator share the code.
Inside, the candidates of a stream (a tier at a pair of intervals) are the first axis and the streams the
last: reductions over few candidates of many streams are then long vector operations. Candidates
are in the order in which ties are broken, so the number of a candidate is also its rank.
"""

from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from holdfast.ft_policies.costs.billing import RELEASE_SECONDS, keep_paid
from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.prediction.steps import HAS_SECONDARY, BoolArray, FloatArray, IntArray
from holdfast.ft_policies.tiering.candidates import Candidates

_TIE = 1 + 1e-9


class Why(IntEnum):
    """The rule that made the choice for a stream; `CHEAPEST` must be 0, see `_why`."""

    CHEAPEST = 0
    """The stream stays: nothing that meets the objective is cheaper."""
    SAVES = 1
    """The stream changes to something cheaper that meets the objective."""
    NEEDED = 2
    """The stream changes, because its present tier or intervals would miss the objective."""
    SMALL_SAVING = 3
    """The stream stays: a change would save too little."""
    DWELLING = 4
    """The stream stays: the last change is too recent for a change that only saves cost."""
    COOLING_DOWN = 5
    """The stream stays, whatever would be better: the last change is too recent for any other."""
    TOO_LITTLE_DATA = 6
    """No recovery can be predicted yet: the fastest tier."""
    CANNOT_HOLD = 7
    """No allowed tier meets the objective: the fastest one."""
    PAID_FOR = 8
    """The secondary is paid for until its hour ends and used until then, see `keep_paid_secondaries`."""


STAYS_PUT = (Why.SMALL_SAVING, Why.DWELLING, Why.COOLING_DOWN)
"""The stream would change, but not yet."""
_STAYS_PUT: BoolArray = np.isin(np.arange(max(Why) + 1), STAYS_PUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What each of n streams should have, why, and by which policy."""

    policy: "ControllerPolicy"
    tier: IntArray
    interval: IntArray
    why: IntArray
    """Codes of `Why`."""
    best: IntArray
    """The tier that cost alone would choose: without cool-down, dwell, least saving and margin."""

    def changes(self, candidates: Candidates) -> BoolArray:
        """Which streams should have another tier or other intervals than they have."""
        same_tier = np.equal(self.tier, candidates.current)
        return ~(same_tier & np.equal(self.interval, candidates.current_interval))


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerPolicy:
    """How readily a stream is changed.

    A stream that meets its objective is changed only to save cost, after a dwell, and to what meets the
    objective with a margin, which grows with recent misses. A stream that misses it is changed at once.
    Neither is changed within the cool-down.
    """

    cool_down_seconds: float = 60.0
    dwell_seconds: float = 300.0
    min_relative_saving: float = 0.10
    least_margin: float = 0.0
    margin_per_miss: float = 0.15
    largest_margin: float = 0.5

    def __post_init__(self) -> None:
        if self.cool_down_seconds < 0 or self.dwell_seconds < 0:
            raise PermanentError(
                f"cool-down and dwell must not be negative: {self}",
                hint="set them to 0 to switch them off",
            )
        margins = (self.least_margin, self.margin_per_miss, self.largest_margin)
        shares = (self.min_relative_saving, *margins)
        if not all(0 <= share < 1 for share in shares):
            raise PermanentError(
                f"the saving and the margins of a controller are shares below 1: {self}",
                hint="write a tenth as 0.1",
            )

    def choose(self, candidates: Candidates) -> Choice:
        """Choose the tier and the intervals of each stream."""
        ranked = _Ranked.of(candidates)
        best, exists = ranked.cheapest()
        wanted = self._with_margin(candidates, ranked, best)
        predictable = candidates.enough & exists
        unpredictable = np.flatnonzero(~predictable)
        if unpredictable.size:
            best[unpredictable] = wanted[unpredictable] = _fastest(candidates, unpredictable)
        why = self._why(candidates, ranked, wanted, predictable=predictable)
        chosen = np.where(_STAYS_PUT.take(why), ranked.current, wanted)
        tier, interval = _tier_and_interval(chosen, ranked.intervals)
        best_tier = best // ranked.intervals
        return Choice(policy=self, tier=tier, interval=interval, why=why, best=best_tier)

    def margin(self, recent_misses: IntArray | FloatArray) -> FloatArray:
        """The share of the objective by which a change that only saves cost must stay below it."""
        margin = self.least_margin + recent_misses * self.margin_per_miss
        return np.minimum(margin, max(self.largest_margin, self.least_margin))

    def _with_margin(self, candidates: Candidates, ranked: "_Ranked", best: IntArray) -> IntArray:
        """The cheapest; streams that meet the objective and may change need what has the margin, too."""
        wanted, stays_for = best.copy(), max(self.cool_down_seconds, self.dwell_seconds)
        free = ranked.holds_now & (candidates.since_change >= stays_for)
        wary = np.flatnonzero(free & (best != ranked.current))
        if wary.size:
            limit = candidates.objective[wary] * (1 - self.margin(candidates.recent_misses[wary]))
            wanted[wary], _ = ranked.within(limit, wary).cheapest()
        return wanted

    def _why(
        self, candidates: Candidates, ranked: "_Ranked", wanted: IntArray, *, predictable: BoolArray
    ) -> IntArray:
        """The rule for each stream; streams that meet their objective change to save cost, or stay."""
        moves, free = wanted != ranked.current, ranked.holds_now & predictable
        why = np.where(free, moves * Why.SAVES.value, Why.NEEDED.value)  # else CHEAPEST, as 0
        np.putmask(why, ~predictable, Why.CANNOT_HOLD.value)
        np.putmask(why, ~candidates.enough, Why.TOO_LITTLE_DATA.value)
        of_choice = moves & free
        since = candidates.since_change
        np.putmask(why, of_choice & (since < self.dwell_seconds), Why.DWELLING.value)
        np.putmask(why, moves & (since < self.cool_down_seconds), Why.COOLING_DOWN.value)
        affordable = ranked.cost_now * (1 - self.min_relative_saving)
        np.putmask(why, of_choice & (ranked.cost_of(wanted) > affordable), Why.SMALL_SAVING.value)
        return why


def keep_paid_secondaries(
    choice: Choice, candidates: Candidates, *, started_at: FloatArray, now: float
) -> Choice:
    """The same choice, except that streams about to release a paid secondary use it first.

    A stream that changes to use it must be free to change again before the hour ends, so a release
    late in the hour is not delayed. A secondary that is already leaving is not called back.
    """
    policy = choice.policy
    stays_for = max(policy.cool_down_seconds, policy.dwell_seconds)
    tier = keep_paid(
        choice.tier,
        started_at=started_at,
        now=now,
        allowed=candidates.allowed,
        release_seconds=RELEASE_SECONDS + stays_for,
    )
    uses = (tier != choice.tier) & HAS_SECONDARY[candidates.current]
    return replace(
        choice,
        tier=np.where(uses, tier, choice.tier),
        why=np.where(uses, Why.PAID_FOR.value, choice.why),
    )


@dataclass(frozen=True, slots=True)
class _Ranked:
    """The candidates of each stream: (candidates, streams), by rank."""

    intervals: int
    seconds: FloatArray
    cost: FloatArray
    """Infinite where a candidate does not hold the objective, or is not allowed."""
    current: IntArray
    holds_now: BoolArray
    cost_now: FloatArray

    @classmethod
    def of(cls, candidates: Candidates) -> "_Ranked":
        n, k, tiers = candidates.cost.shape
        seconds = np.empty((tiers, k, n))
        np.maximum(
            _by_rank(candidates.predicted), _by_rank(candidates.predicted_ahead), out=seconds
        )
        holds = (seconds <= candidates.objective) & candidates.allowed.T[:, np.newaxis]
        cost = np.where(holds, _by_rank(candidates.cost), np.inf).reshape(tiers * k, n)
        current = _rank(candidates.current, candidates.current_interval, k)
        cost_now = cost.take(current * n + np.arange(n))
        return cls(k, seconds.reshape(tiers * k, n), cost, current, cost_now < np.inf, cost_now)

    def cheapest(self) -> tuple[IntArray, BoolArray]:
        """The rank of the cheapest candidate of each stream, and whether there is one at all."""
        candidates = len(self.cost)
        least = self.cost.min(axis=0)
        ranks = np.arange(candidates, dtype=np.int16)[:, np.newaxis]
        tied = np.where(self.cost <= least * _TIE, ranks, np.int16(candidates))
        return tied.min(axis=0).astype(np.intp), least < np.inf

    def cost_of(self, rank: IntArray) -> FloatArray:
        """What these candidates cost, one of each stream."""
        return self.cost.take(rank * len(rank) + np.arange(len(rank)))

    def within(self, limit: FloatArray, some: IntArray) -> "_Ranked":
        """Some streams with the candidates within a limit; where a stream is, it may stay."""
        seconds, current, cost_now = self.seconds[:, some], self.current[some], self.cost_now[some]
        cost = np.where(seconds <= limit, self.cost[:, some], np.inf)
        cost[current, np.arange(len(some))] = cost_now
        return _Ranked(self.intervals, seconds, cost, current, self.holds_now[some], cost_now)


def _by_rank(array: FloatArray) -> FloatArray:
    """Tiers first, the faster one first; then intervals, the longer one (fewer requests) first."""
    return array.T[:, ::-1]


def _rank(tier: IntArray, interval: IntArray, intervals: int) -> IntArray:
    return tier.astype(np.intp, copy=False) * intervals + (intervals - 1 - interval)


def _tier_and_interval(rank: IntArray, intervals: int) -> tuple[IntArray, IntArray]:
    tier = rank // intervals
    return tier, (tier + 1) * intervals - 1 - rank


def _fastest(candidates: Candidates, some: IntArray) -> IntArray:
    """The fastest tier that some streams may have: at the interval of the quickest recovery,
    or at the present one if no prediction can be trusted.
    """
    tier = candidates.allowed[some].argmax(axis=1)
    at = (some, slice(None), tier)
    seconds = np.maximum(candidates.predicted[at], candidates.predicted_ahead[at])
    is_finite = (candidates.cost[at] < np.inf) & (seconds < np.inf)
    k = seconds.shape[1]
    quickest = k - 1 - np.where(is_finite, seconds, np.inf)[:, ::-1].argmin(axis=1)
    interval = np.where(candidates.enough[some], quickest, candidates.current_interval[some])
    return _rank(tier, interval, k)
