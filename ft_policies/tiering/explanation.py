"""Explains a choice in sentences: for one stream, why this tier and why not the others."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf, isclose, isnan
from typing import TypeAlias

from holdfast.ft_policies import quantities
from holdfast.ft_policies.costs.billing import paid_until
from holdfast.ft_policies.prediction.steps import TIERS
from holdfast.ft_policies.tiering.candidates import Candidates, StreamInputs
from holdfast.ft_policies.tiering.controller import Choice, Why
from holdfast.ft_policies.tiers import Mode, Tier

Candidate: TypeAlias = tuple[int, int]
"""Intervals and tier, as they index the arrays of a stream."""


@dataclass(frozen=True, slots=True)
class StreamChoice:
    """A view of one stream in candidates and choice, in plain numbers; what is unknown is infinite."""

    candidates: Candidates
    choice: Choice
    index: int

    @property
    def inputs(self) -> StreamInputs:
        return self.candidates.streams[self.index]

    @property
    def objective(self) -> float:
        return float(self.candidates.objective[self.index])

    @property
    def why(self) -> Why:
        return Why(int(self.choice.why[self.index]))

    @property
    def best(self) -> int:
        return int(self.choice.best[self.index])

    @property
    def current(self) -> Candidate:
        intervals, tiers = self.candidates.current_interval, self.candidates.current
        return int(intervals[self.index]), int(tiers[self.index])

    @property
    def chosen(self) -> Candidate:
        return int(self.choice.interval[self.index]), int(self.choice.tier[self.index])

    def is_allowed(self, tier: int) -> bool:
        return bool(self.candidates.allowed[self.index, tier])

    def seconds_now(self, candidate: Candidate) -> float:
        return _finite_or_inf(self.candidates.predicted[self.index, *candidate])

    def seconds_ahead(self, candidate: Candidate) -> float:
        return _finite_or_inf(self.candidates.predicted_ahead[self.index, *candidate])

    def seconds(self, candidate: Candidate) -> float:
        """The longer of a recovery now and at the load that is expected."""
        return max(self.seconds_now(candidate), self.seconds_ahead(candidate))

    def cost(self, candidate: Candidate) -> float:
        """In the unit by which candidates are ranked."""
        return _finite_or_inf(self.candidates.cost[self.index, *candidate])

    def money_per_hour(self, candidate: Candidate) -> float:
        return _finite_or_inf(self.candidates.money_per_hour[self.index, *candidate])

    def snapshot_every(self, candidate: Candidate) -> float:
        return float(self.candidates.snapshot_every[self.index, candidate[0]])

    def sync_every(self, candidate: Candidate) -> float:
        return float(self.candidates.sync_every[self.index, candidate[0]])

    def calibration(self, tier: int) -> str | None:
        """What the prediction of a tier is worth, in words; `None` by the thesis, which has no calibration."""
        return (
            None if self.inputs.thesis is not None else self.inputs.fit.calibration.describe(tier)
        )

    def is_uncalibrated(self, tier: int) -> bool:
        """Whether a margin was added, because too few recoveries are known."""
        calibrated = self.inputs.fit.calibration.calibrated
        return self.inputs.thesis is None and not calibrated[tier]

    def meets_objective(self, candidate: Candidate) -> bool:
        """Whether the stream may have it and would recover in time."""
        affordable = self.is_allowed(candidate[1]) and self.cost(candidate) < inf
        return affordable and self.seconds(candidate) <= self.objective

    def representative(self, tier: int) -> Candidate:
        """The candidate to show for a tier: the chosen or the current one, else the likeliest."""
        for candidate in (self.chosen, self.current):
            if candidate[1] == tier:
                return candidate
        intervals = range(len(self.inputs.snapshot_every))
        every = [(interval, tier) for interval in reversed(intervals)]
        in_time = [candidate for candidate in every if self.meets_objective(candidate)]
        return min(in_time, key=self.cost) if in_time else min(every, key=self.seconds)


def _finite_or_inf(number: float) -> float:
    return inf if isnan(number) else float(number)


def explain_choice(row: StreamChoice) -> str:
    """Why the stream gets what was chosen, in one sentence."""
    sentence, mode = _SENTENCES[row.why](row), row.inputs.mode
    if mode is Mode.AUTO or row.chosen == row.current:
        return sentence
    if mode is Mode.ADVISE:
        return f"advice only: {sentence}"
    return f"pinned to {_tier(row.current)}; otherwise: {sentence}"


def explain_rejection(row: StreamChoice, candidate: Candidate) -> str | None:
    """Why a tier was not chosen; `None` for the chosen one."""
    tier = candidate[1]
    if tier == row.chosen[1]:
        return None
    if not row.is_allowed(tier):
        return "not allowed"
    if not row.candidates.enough[row.index]:
        return "not enough data to predict it"
    if row.cost(candidate) == inf:
        return "its cost is unknown"
    return _too_costly(row, candidate) if row.meets_objective(candidate) else _late(row, candidate)


def _too_costly(row: StreamChoice, candidate: Candidate) -> str:
    cost, chosen = row.cost(candidate), row.cost(row.chosen)
    if row.why in _POSTPONED and candidate[1] == row.best:
        return _POSTPONED[row.why]
    if isclose(cost, chosen) and candidate[1] > row.chosen[1]:
        return f"costs as much as {_tier(row.chosen)}, which is faster"
    if cost > chosen:
        return f"costs more than {_tier(row.chosen)}"
    return _POSTPONED.get(row.why) or _small_margin(row)


_POSTPONED = {
    Why.SMALL_SAVING: "saves too little to justify a change",
    Why.DWELLING: "too soon after the last change for one that only saves cost",
    Why.COOLING_DOWN: "the stream is cooling down after its last change",
    Why.PAID_FOR: "the secondary is still paid for",
}


def _cheapest(row: StreamChoice) -> str:
    better = f"; {TIERS[row.best]} {_small_margin(row)}" if row.best != row.chosen[1] else ""
    return f"{_tier(row.chosen)} is still {_cheapest_in_time(row)}{better}"


def _saves(row: StreamChoice) -> str:
    return f"{_target(row)} is {_cheapest_in_time(row)}; saves {_saving(row)}"


def _explain_need(row: StreamChoice) -> str:
    return f"{_explain_loss(row)}; {_target(row)} is {_cheapest_in_time(row)}"


def _small_saving(row: StreamChoice) -> str:
    least = f"{row.choice.policy.min_relative_saving:.0%}"
    return f"stays in {_tier(row.current)}: no change saves at least {least} of the cost"


def _dwelling(row: StreamChoice) -> str:
    waits = f"one that only saves cost must wait {_seconds(row.choice.policy.dwell_seconds)}"
    return f"{_explain_cool_down(row)}, and {waits}; {_alternative(row)} would be cheaper"


def _cooling_down(row: StreamChoice) -> str:
    waits = f"the cool-down is {_seconds(row.choice.policy.cool_down_seconds)}"
    return f"{_explain_cool_down(row)}, and {waits}; {_alternative(row)} would be better"


def _too_little_data(row: StreamChoice) -> str:
    missing = row.inputs.basis.missing
    unmeasured = f" (never measured: {', '.join(missing)})" if missing else ""
    return f"{_tier(row.chosen)} until there is enough data to predict a recovery{unmeasured}"


def _cannot_hold(row: StreamChoice) -> str:
    none = f"no allowed tier is predicted to recover within {_seconds(row.objective)}"
    return f"{none}; {_tier(row.chosen)} is the fastest ({_describe_prediction(row)})"


def _explain_paid(row: StreamChoice) -> str:
    at = row.candidates.at
    minutes = (float(paid_until(row.inputs.secondary_since, at)) - at) / 60
    paid = f"the secondary is paid for another {minutes:.0f} min"
    after = f"after that {TIERS[row.best]} is the cheapest"
    return f"{paid}, so {_tier(row.chosen)} costs nothing extra; {after}"


_SENTENCES: Mapping[Why, Callable[[StreamChoice], str]] = {
    Why.CHEAPEST: _cheapest,
    Why.SAVES: _saves,
    Why.NEEDED: _explain_need,
    Why.SMALL_SAVING: _small_saving,
    Why.DWELLING: _dwelling,
    Why.COOLING_DOWN: _cooling_down,
    Why.TOO_LITTLE_DATA: _too_little_data,
    Why.CANNOT_HOLD: _cannot_hold,
    Why.PAID_FOR: _explain_paid,
}


def _tier(candidate: Candidate) -> Tier:
    return TIERS[candidate[1]]


def _explain_cool_down(row: StreamChoice) -> str:
    ago = _seconds(float(row.candidates.since_change[row.index]))
    return f"stays in {_tier(row.current)}: the last change was {ago} ago"


def _alternative(row: StreamChoice) -> str:
    return TIERS[row.best] if row.best != row.current[1] else "other intervals"


def _late(row: StreamChoice, candidate: Candidate) -> str:
    seconds = row.seconds(candidate)
    if seconds == inf:
        return "cannot be predicted"
    takes = "takes" if row.seconds_now(candidate) > row.objective else "would soon take"
    return f"{takes} {_seconds(seconds)}, more than {_seconds(row.objective)}"


def _explain_loss(row: StreamChoice) -> str:
    tier = _tier(row.current)
    if not row.is_allowed(row.current[1]):
        return f"{tier} is not allowed"
    if row.cost(row.current) == inf:
        return f"{tier} is not allowed at its current intervals"
    return f"{tier} no longer meets the objective: it {_late(row, row.current)}"


def _cheapest_in_time(row: StreamChoice) -> str:
    return (
        f"the cheapest that recovers within {_seconds(row.objective)} ({_describe_prediction(row)})"
    )


def _small_margin(row: StreamChoice) -> str:
    misses = row.candidates.recent_misses[row.index]
    after = f" after {misses:g} recent miss{'' if misses == 1 else 'es'}" if misses else ""
    return f"meets the objective with too small a margin{after}"


def _target(row: StreamChoice) -> str:
    """The chosen tier; its intervals are named where only they change."""
    tier = _tier(row.chosen)
    if row.chosen[1] != row.current[1]:
        return tier
    snapshot = _seconds(row.snapshot_every(row.chosen))
    return f"{tier} with snapshots every {snapshot} and syncs every {_seconds(row.sync_every(row.chosen))}"


def _saving(row: StreamChoice) -> str:
    now, then = row.current, row.chosen
    over = _tier(now) if then[1] != now[1] else "its current intervals"
    money = row.money_per_hour(now) - row.money_per_hour(then)
    if 0 < money < inf:
        return f"{_money(money)} {row.candidates.currency}/h over {over}"
    if 0 < row.cost(now) < inf:
        return f"{1 - row.cost(then) / row.cost(now):.0%} of the cost of {over}"
    return f"nothing over {over}, but is faster"


def _describe_prediction(row: StreamChoice) -> str:
    caution = ", uncalibrated" if row.is_uncalibrated(row.chosen[1]) else ""
    return f"predicted {_seconds(row.seconds(row.chosen))}{caution}"


def _seconds(value: float) -> str:
    return quantities.seconds(value) if value < inf else "an unknown time"


def _money(value: float) -> str:
    return f"{value:.3f}" if value >= 0.01 else f"{value:.6f}"
