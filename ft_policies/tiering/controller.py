"""Which tier, at which interval: the cheapest that holds the objective, and no flapping.

All streams at once, as arrays, so that the live review and the simulator decide with one code.
Inside, the candidates of a stream (a tier at an interval) are the first axis and the streams the
last: reductions over few candidates of many streams are then long vector operations. Candidates
are in the order in which ties are broken, so a candidate's number is also its rank.
"""

from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from ft_policies.costs.billing import RELEASE_SECONDS, kept
from ft_policies.errors import PermanentError
from ft_policies.prediction.steps import HAS_SECONDARY, TIERS, BoolArray, FloatArray, IntArray

_TIE = 1 + 1e-9


class Why(IntEnum):
    """What settled the choice for a stream; `CHEAPEST` must be 0, see `_why`."""

    CHEAPEST = 0
    """It stays: nothing that holds the objective is cheaper."""
    SAVES = 1
    """It moves to something cheaper that holds the objective."""
    NEEDED = 2
    """It moves, because where it is it would miss the objective."""
    SMALL_SAVING = 3
    """It stays: what the move would save is not worth it."""
    DWELLING = 4
    """It stays: it has not been there for long enough to save by a move."""
    COOLING_DOWN = 5
    """It stays, whatever would be better: it has only just changed."""
    TOO_LITTLE_DATA = 6
    """Nothing is known of its recovery yet: the fastest tier."""
    CANNOT_HOLD = 7
    """No tier that it may have holds the objective: the fastest one."""
    PAID_FOR = 8
    """Its secondary is paid for until its hour ends, and used until then: `billing` says so."""


STAYS_PUT = (Why.SMALL_SAVING, Why.DWELLING, Why.COOLING_DOWN)
"""It would move, but does not yet."""
_STAYS_PUT: BoolArray = np.isin(np.arange(max(Why) + 1), STAYS_PUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What is known of n streams, each with k candidates of intervals, the shortest first.

    A candidate that a stream may not have costs infinity. `since_change` is the time since the
    tier or the interval changed last.
    """

    predicted: FloatArray
    """Seconds of a recovery (n, k, 6)."""
    predicted_ahead: FloatArray
    """The same at the load that is expected once a change has finished (n, k, 6)."""
    cost: FloatArray
    """In whatever unit, never negative (n, k, 6)."""
    objective: FloatArray
    allowed: BoolArray
    """Which tiers a stream may have (n, 6)."""
    enough: BoolArray
    """Whether there are data enough to trust the predictions."""
    current: IntArray
    current_interval: IntArray
    since_change: FloatArray
    recent_misses: IntArray | FloatArray

    def __post_init__(self) -> None:
        n, k, tiers = self.cost.shape
        wanted = (n, k, tiers)
        if (
            tiers != len(TIERS)
            or k == 0
            or self.predicted.shape != wanted
            or self.predicted_ahead.shape != wanted
            or self.allowed.shape != (n, tiers)
            or self.objective.shape != (n,)
        ):
            raise PermanentError(
                f"the arrays of a situation do not fit: cost {wanted},"
                f" predicted {self.predicted.shape}, ahead {self.predicted_ahead.shape},"
                f" allowed {self.allowed.shape}, objective {self.objective.shape}",
                hint="pass (streams, intervals, 6 tiers), (streams, 6 tiers) and (streams,)",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What each of n streams should have, and why."""

    tier: IntArray
    interval: IntArray
    why: IntArray
    """Codes of `Why`."""
    best: IntArray
    """The tier that it would be without cool-down, dwell, band and margin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerPolicy:
    """How eagerly a stream is moved.

    A stream that holds its objective moves only for a saving, after a dwell, and to what holds
    with a margin, which grows with its recent misses. One that does not hold it moves at once.
    Neither moves within the cool-down.
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
                f"cool-down and dwell must not be negative: {self}", hint="0 switches them off"
            )
        margins = (self.least_margin, self.margin_per_miss, self.largest_margin)
        shares = (self.min_relative_saving, *margins)
        if not all(0 <= share < 1 for share in shares):
            raise PermanentError(
                f"the saving and the margins of a controller are shares below 1: {self}",
                hint="for example 0.1 for a tenth",
            )

    def choose(self, situation: Situation) -> Choice:
        """The tier and the interval for each stream."""
        ranked = _Ranked.of(situation)
        best, found = ranked.cheapest()
        wanted = self._with_margin(situation, ranked, best)
        known = situation.enough & found
        lost = np.flatnonzero(~known)
        if lost.size:
            best[lost] = wanted[lost] = _fastest(situation, lost)
        why = self._why(situation, ranked, wanted, known=known)
        chosen = np.where(_STAYS_PUT.take(why), ranked.current, wanted)
        tier, interval = _tier_and_interval(chosen, ranked.intervals)
        return Choice(tier=tier, interval=interval, why=why, best=best // ranked.intervals)

    def margin(self, recent_misses: IntArray | FloatArray) -> FloatArray:
        """The share of the objective by which a move of choice must stay under it."""
        margin = self.least_margin + recent_misses * self.margin_per_miss
        return np.minimum(margin, max(self.largest_margin, self.least_margin))

    def _with_margin(self, situation: Situation, ranked: "_Ranked", best: IntArray) -> IntArray:
        """The best, where those that now hold, and might move, need what holds with the margin."""
        wanted, stays_for = best.copy(), max(self.cool_down_seconds, self.dwell_seconds)
        free = ranked.holds_now & (situation.since_change >= stays_for)
        wary = np.flatnonzero(free & (best != ranked.current))
        if wary.size:
            limit = situation.objective[wary] * (1 - self.margin(situation.recent_misses[wary]))
            wanted[wary], _ = ranked.within(limit, wary).cheapest()
        return wanted

    def _why(
        self, situation: Situation, ranked: "_Ranked", wanted: IntArray, *, known: BoolArray
    ) -> IntArray:
        """What settles the choice; those that hold their objective move of choice, or stay."""
        moves, free = wanted != ranked.current, ranked.holds_now & known
        why = np.where(free, moves * Why.SAVES.value, Why.NEEDED.value)  # else CHEAPEST, as 0
        np.putmask(why, ~known, Why.CANNOT_HOLD.value)
        np.putmask(why, ~situation.enough, Why.TOO_LITTLE_DATA.value)
        of_choice = moves & free
        since = situation.since_change
        np.putmask(why, of_choice & (since < self.dwell_seconds), Why.DWELLING.value)
        np.putmask(why, moves & (since < self.cool_down_seconds), Why.COOLING_DOWN.value)
        affordable = ranked.cost_now * (1 - self.min_relative_saving)
        np.putmask(why, of_choice & (ranked.cost_of(wanted) > affordable), Why.SMALL_SAVING.value)
        return why


def using_paid(
    choice: Choice,
    situation: Situation,
    policy: ControllerPolicy,
    *,
    started_at: FloatArray,
    now: float,
) -> Choice:
    """The same choice, but streams that would release a secondary use it first, as `kept` says.

    One that moves to use it must be free to leave again before the hour ends, so a release that comes
    late in the hour is not put off. A secondary that is leaving already is not called back.
    """
    stays_for = max(policy.cool_down_seconds, policy.dwell_seconds)
    tier = kept(
        choice.tier,
        started_at=started_at,
        now=now,
        allowed=situation.allowed,
        release_seconds=RELEASE_SECONDS + stays_for,
    )
    uses = (tier != choice.tier) & HAS_SECONDARY[situation.current]
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
    def of(cls, situation: Situation) -> "_Ranked":
        n, k, tiers = situation.cost.shape
        seconds = np.empty((tiers, k, n))
        np.maximum(_by_rank(situation.predicted), _by_rank(situation.predicted_ahead), out=seconds)
        holds = (seconds <= situation.objective) & situation.allowed.T[:, np.newaxis]
        cost = np.where(holds, _by_rank(situation.cost), np.inf).reshape(tiers * k, n)
        current = _rank(situation.current, situation.current_interval, k)
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


def _fastest(situation: Situation, some: IntArray) -> IntArray:
    """The fastest tier that some streams may have: at the interval of the quickest recovery,
    or at the present one if no prediction can be trusted.
    """
    tier = situation.allowed[some].argmax(axis=1)
    at = (some, slice(None), tier)
    seconds = np.maximum(situation.predicted[at], situation.predicted_ahead[at])
    known = (situation.cost[at] < np.inf) & (seconds < np.inf)
    k = seconds.shape[1]
    quickest = k - 1 - np.where(known, seconds, np.inf)[:, ::-1].argmin(axis=1)
    interval = np.where(situation.enough[some], quickest, situation.current_interval[some])
    return _rank(tier, interval, k)
