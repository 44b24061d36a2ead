"""The streams of a simulation at a tick: their tiers, and what their replicas cover."""

from collections.abc import Collection

import numpy as np

from holdfast.ft_policies.costs.billing import paid_until
from holdfast.ft_policies.prediction.steps import (
    HAS_SECONDARY,
    TIERS,
    BoolArray,
    FloatArray,
    IntArray,
)
from holdfast.ft_policies.tiering.candidates import Candidates
from holdfast.ft_policies.tiering.controller import Choice, ControllerPolicy, keep_paid_secondaries
from holdfast.ft_policies.tiers import Tier

_WEAKEST = len(TIERS) - 1
_FORGOTTEN = 0.05


class Fleet:
    """n streams; all begin in their fastest tier at the longest interval, and may change at once."""

    def __init__(
        self,
        objective: FloatArray,
        *,
        allowed: Collection[Tier],
        intervals: int,
        started_hours: bool,
    ) -> None:
        size = len(objective)
        self.objective = objective
        self.allowed = np.tile([tier in allowed for tier in TIERS], (size, 1))
        self.tier: IntArray = self.allowed.argmax(axis=1)
        self.interval = np.full(size, intervals - 1, dtype=np.intp)
        self.since_change = np.full(size, np.inf)
        self.recent_misses = np.zeros(size)
        self.switches = np.zeros(size)
        self.failures = np.zeros(size)
        self.misses = np.zeros(size)
        self.double_misses = np.zeros(size)
        self.billed_hours = np.zeros(size)
        self._started_hours = started_hours
        self._started_at = np.zeros(size)
        self._paid_until = np.zeros(size)
        self._before = np.zeros(size, dtype=np.intp)
        self._ready_at = np.zeros(size)
        self._alone_until = np.zeros(size)

    def candidates(
        self, predicted: FloatArray, cost: FloatArray, *, enough: BoolArray
    ) -> Candidates:
        """The candidates for the controller; the predictions already include the load ahead."""
        return Candidates(
            predicted=predicted,
            predicted_ahead=predicted,
            cost=cost,
            objective=self.objective,
            allowed=self.allowed,
            enough=enough,
            current=self.tier,
            current_interval=self.interval,
            since_change=self.since_change,
            recent_misses=self.recent_misses,
        )

    def choose(self, candidates: Candidates, policy: ControllerPolicy, *, now: float) -> Choice:
        """Choose by the policy; where started hours are billed, a paid secondary is used."""
        choice = policy.choose(candidates)
        if not self._started_hours:
            return choice
        return keep_paid_secondaries(choice, candidates, started_at=self._started_at, now=now)

    def move(self, choice: Choice, *, now: float, change_seconds: float) -> None:
        """Apply the choice; a faster tier is covered only once the change is done."""
        wanted = np.asarray(choice.tier, dtype=np.intp)
        moves = np.flatnonzero((wanted != self.tier) | (choice.interval != self.interval))
        if moves.size:
            was, to = self.tier[moves], wanted[moves]
            self.switches[moves] += was != to
            self._before[moves] = self._find_covered(moves, now)
            self._ready_at[moves] = now + change_seconds
            self.tier[moves] = to
            self.interval[moves] = choice.interval[moves]
            self.since_change[moves] = 0.0
        if self._started_hours:
            self._bill(now)

    def fail(
        self,
        rows: IntArray,
        took: FloatArray,
        *,
        now: float,
        change_seconds: float,
    ) -> None:
        """Fail the primaries of these streams; `took` is the recovery time in each tier.

        Until there is a new secondary, only the weakest tier is covered. A miss of a second failure in that
        time is not due to the choice, and does not count as a recent miss.
        """
        covered = self._find_covered(rows, now)
        missed = took[np.arange(len(rows)), covered] > self.objective[rows]
        alone = now < self._alone_until[rows]
        self.failures[rows] += 1
        self.misses[rows] += missed
        self.double_misses[rows] += missed & alone
        self.recent_misses[rows] += missed & ~alone
        self._before[rows] = _WEAKEST
        self._ready_at[rows] = self._alone_until[rows] = now + change_seconds

    def forget(self, kept_share: float) -> None:
        """Let recent misses fade; small remainders become 0."""
        self.recent_misses *= kept_share
        self.recent_misses[self.recent_misses < _FORGOTTEN] = 0.0

    def _find_covered(self, rows: IntArray, now: float) -> IntArray:
        tier = self.tier[rows]
        changing = now < self._ready_at[rows]
        return np.where(changing, np.maximum(tier, self._before[rows]), tier)

    def _bill(self, now: float) -> None:
        has = HAS_SECONDARY[self.tier]
        self._started_at[~has] = np.nan
        self._paid_until[~has] = now
        starts = np.flatnonzero(has & np.isnan(self._started_at))
        self._started_at[starts] = now
        due = np.flatnonzero(has & (self._paid_until <= now))
        self._paid_until[due] = paid_until(self._started_at[due], now)
        self.billed_hours[due] += 1
