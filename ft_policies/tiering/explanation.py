"""A choice in words that a person understands: for one stream, why this tier and not the others."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isclose

from ft_policies.prediction.steps import TIERS, RecoveryStep
from ft_policies.tiering.controller import ControllerPolicy, Why
from ft_policies.tiers import Tier

Grid = Sequence[Sequence[float]]
"""Numbers of one stream: by interval, then by tier."""


@dataclass(frozen=True, slots=True)
class At:
    """A candidate: a tier at an interval."""

    tier: int
    interval: int

    @property
    def name(self) -> Tier:
        """The tier's name."""
        return TIERS[self.tier]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One stream of a situation and its choice, as plain numbers; infinite is what is not known."""

    policy: ControllerPolicy
    predicted: Grid
    ahead: Grid
    cost: Grid
    money_per_hour: Grid
    currency: str
    snapshot_every: Sequence[float]
    sync_every: Sequence[float]
    objective: float
    allowed: Sequence[bool]
    enough: bool
    missing: Sequence[RecoveryStep]
    paid_seconds: float
    current: At
    chosen: At
    best: int
    why: Why
    since_change: float
    recent_misses: float

    def seconds(self, at: At) -> float:
        """What a recovery takes, now or at the load to come."""
        return max(self.predicted[at.interval][at.tier], self.ahead[at.interval][at.tier])

    def holds(self, at: At) -> bool:
        """Whether the stream may have it and would be back in time."""
        affordable = self.allowed[at.tier] and self.cost_of(at) < inf
        return affordable and self.seconds(at) <= self.objective

    def cost_of(self, at: At) -> float:
        """In the unit that decides."""
        return self.cost[at.interval][at.tier]

    def money_of(self, at: At) -> float:
        """An hour of it."""
        return self.money_per_hour[at.interval][at.tier]

    def shown(self, tier: int) -> At:
        """The candidate that stands for a tier: where the stream is or goes, else the likeliest."""
        for at in (self.chosen, self.current):
            if at.tier == tier:
                return at
        every = [At(tier, j) for j in reversed(range(len(self.cost)))]
        holding = [at for at in every if self.holds(at)]
        return min(holding, key=self.cost_of) if holding else min(every, key=self.seconds)


def reason(case: Case) -> str:
    """Why the stream gets what was chosen, in one sentence."""
    return _REASONS[case.why](case)


def rejected(case: Case, at: At) -> str | None:
    """Why a tier was not chosen; `None` for the one that was."""
    if at.tier == case.chosen.tier:
        return None
    if not case.allowed[at.tier]:
        return "not allowed"
    if not case.enough:
        return "too little data to predict it"
    if case.cost_of(at) == inf:
        return "its cost is not known"
    return _not_worth_it(case, at) if case.holds(at) else _late(case, at)


def _not_worth_it(case: Case, at: At) -> str:
    cost, chosen = case.cost_of(at), case.cost_of(case.chosen)
    if case.why in _POSTPONED and at.tier == case.best:
        return _POSTPONED[case.why]
    if isclose(cost, chosen) and at.tier > case.chosen.tier:
        return f"costs as much as {case.chosen.name}, which is faster"
    if cost > chosen:
        return f"costs more than {case.chosen.name}"
    return _POSTPONED.get(case.why) or _after_misses(case)


_POSTPONED = {
    Why.SMALL_SAVING: "saves too little for a move",
    Why.DWELLING: "too soon after the last change to save by a move",
    Why.COOLING_DOWN: "the stream cools down after its last change",
    Why.PAID_FOR: "the secondary is paid for still",
}


def _cheapest(case: Case) -> str:
    better = ""
    if case.best != case.chosen.tier:
        better = f"; {TIERS[case.best]} {_after_misses(case)}"
    return f"{case.chosen.name} is still {_holds_cheapest(case)}{better}"


def _saves(case: Case) -> str:
    return f"{_move(case)} is {_holds_cheapest(case)}; saves {_saving(case)}"


def _needed(case: Case) -> str:
    return f"{_lost(case)}; {_move(case)} is {_holds_cheapest(case)}"


def _small_saving(case: Case) -> str:
    least = f"{case.policy.min_relative_saving:.0%}"
    return f"stays in {case.current.name}: no move saves as much as {least} of the cost"


def _dwelling(case: Case) -> str:
    waits = f"{_seconds(case.policy.dwell_seconds)} must pass after a change to save by another"
    return f"{_changed(case)}, {waits}; {_rather(case)} would be cheaper"


def _cooling_down(case: Case) -> str:
    waits = f"cools down for {_seconds(case.policy.cool_down_seconds)}"
    return f"{_changed(case)} and {waits}; {_rather(case)} would be better"


def _too_little_data(case: Case) -> str:
    never = f" (never measured: {', '.join(case.missing)})" if case.missing else ""
    return f"{case.chosen.name} until there is data enough to predict a recovery{never}"


def _cannot_hold(case: Case) -> str:
    none = f"no tier that is allowed is known to be back within {_seconds(case.objective)}"
    return f"{none}; {case.chosen.name} is the fastest ({_predicted(case)})"


def _paid_for(case: Case) -> str:
    left = f"the secondary is paid for {case.paid_seconds / 60:.0f} min more"
    return f"{left}, so {case.chosen.name} costs nothing; then {TIERS[case.best]} is the cheapest"


_REASONS: Mapping[Why, Callable[[Case], str]] = {
    Why.CHEAPEST: _cheapest,
    Why.SAVES: _saves,
    Why.NEEDED: _needed,
    Why.SMALL_SAVING: _small_saving,
    Why.DWELLING: _dwelling,
    Why.COOLING_DOWN: _cooling_down,
    Why.TOO_LITTLE_DATA: _too_little_data,
    Why.CANNOT_HOLD: _cannot_hold,
    Why.PAID_FOR: _paid_for,
}


def _changed(case: Case) -> str:
    return f"stays in {case.current.name}: it changed {_seconds(case.since_change)} ago"


def _rather(case: Case) -> str:
    return TIERS[case.best] if case.best != case.current.tier else "other intervals"


def _late(case: Case, at: At) -> str:
    seconds = case.seconds(at)
    if seconds == inf:
        return "cannot be predicted"
    now = case.predicted[at.interval][at.tier] > case.objective
    takes = "takes" if now else "would soon take"
    return f"{takes} {_seconds(seconds)}, more than {_seconds(case.objective)}"


def _lost(case: Case) -> str:
    if not case.allowed[case.current.tier]:
        return f"{case.current.name} is not allowed"
    if case.cost_of(case.current) == inf:
        return f"{case.current.name} is not allowed at its present intervals"
    return f"{case.current.name} no longer holds: it {_late(case, case.current)}"


def _holds_cheapest(case: Case) -> str:
    return f"the cheapest that is back within {_seconds(case.objective)} ({_predicted(case)})"


def _after_misses(case: Case) -> str:
    holds = "holds it with too little margin"
    if not case.recent_misses:
        return holds
    return (
        f"{holds} after {case.recent_misses:g} recent miss{'' if case.recent_misses == 1 else 'es'}"
    )


def _move(case: Case) -> str:
    """Where it goes; the intervals are told where they are what changes."""
    if case.chosen.tier != case.current.tier:
        return case.chosen.name
    snapshot = _seconds(case.snapshot_every[case.chosen.interval])
    sync = _seconds(case.sync_every[case.chosen.interval])
    return f"{case.chosen.name} with snapshots every {snapshot} and syncs every {sync}"


def _saving(case: Case) -> str:
    now, then = case.current, case.chosen
    over = now.name if then.tier != now.tier else "its present intervals"
    money = case.money_of(now) - case.money_of(then)
    if 0 < money < inf:
        return f"{_money(money)} {case.currency}/h over {over}"
    if 0 < case.cost_of(now) < inf:
        return f"{1 - case.cost_of(then) / case.cost_of(now):.0%} of the cost of {over}"
    return f"nothing over {over}, but is faster"


def _predicted(case: Case) -> str:
    return f"predicted {_seconds(case.seconds(case.chosen))}"


def _seconds(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0") + " s" if value < inf else "an unknown time"


def _money(value: float) -> str:
    return f"{value:.3f}" if value >= 0.01 else f"{value:.6f}"
