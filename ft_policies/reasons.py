"""A choice in words that a person understands: for one stream, why this tier and not the others."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from ft_policies.controller import ControllerPolicy, Why
from ft_policies.recovery_model import TIERS, RecoveryStep
from ft_policies.tiers import Tier

Grid = Sequence[Sequence[float]]
"""Numbers of one stream: by interval, then by tier."""


@dataclass(frozen=True, slots=True, kw_only=True)
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
    """One stream of a situation and its choice, as plain numbers."""

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
    current: At
    chosen: At
    best: int
    why: Why
    since_change: float
    recent_misses: float

    def seconds(self, at: At) -> float:
        """What a recovery takes, now or at the load to come; infinite if that is not known."""
        both = (self.predicted[at.interval][at.tier], self.ahead[at.interval][at.tier])
        return max(both) if all(one < inf for one in both) else inf

    def holds(self, at: At) -> bool:
        """Whether the stream may have it and would be back in time."""
        return self.allowed[at.tier] and self.seconds(at) <= self.objective

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
        every = [At(tier=tier, interval=j) for j in reversed(range(len(self.cost)))]
        holding = [at for at in every if self.holds(at)]
        return min(holding, key=self.cost_of) if holding else min(every, key=self.seconds)


def reason(case: Case) -> str:
    """Why the stream gets what was chosen, in one sentence."""
    chosen, current, best = case.chosen.name, case.current.name, case.shown(case.best)
    match case.why:
        case Why.CHEAPEST:
            return f"{chosen} is still {_cheapest(case)}{_if_margin(case, best)}"
        case Why.SAVES:
            return f"{_move(case)} is {_cheapest(case)}; saves {_saving(case, case.chosen)}"
        case Why.NEEDED:
            return f"{_lost(case)}; {_move(case)} is {_cheapest(case)}"
        case Why.SMALL_SAVING:
            least = f"{case.policy.min_relative_saving:.0%}"
            return f"stays in {current}: no move saves as much as {least} of the cost"
        case Why.DWELLING:
            stays = f"{_seconds(case.policy.dwell_seconds)} must pass after a change"
            return f"stays in {current}: {stays}, {_seconds(case.since_change)} have"
        case Why.COOLING_DOWN:
            return (
                f"stays in {current}: it changed {_seconds(case.since_change)} ago and cools down"
                f" for {_seconds(case.policy.cool_down_seconds)}; {best.name} would be better"
            )
        case Why.TOO_LITTLE_DATA:
            never = f" (never measured: {', '.join(case.missing)})" if case.missing else ""
            return f"{chosen} until there is data enough to predict a recovery{never}"
        case Why.CANNOT_HOLD:
            allowed = f"no tier that is allowed is back within {_seconds(case.objective)}"
            return f"{allowed}; {chosen} is the fastest ({_predicted(case, case.chosen)})"


def rejected(case: Case, at: At) -> str | None:
    """Why a tier was not chosen; `None` for the one that was."""
    if at.tier == case.chosen.tier:
        return None
    if not case.allowed[at.tier]:
        return "not allowed"
    if not case.enough:
        return "too little data to predict it"
    if not case.holds(at):
        return _late(case, at)
    return _not_worth_it(case, at)


def _not_worth_it(case: Case, at: At) -> str:
    cost, chosen = case.cost_of(at), case.cost_of(case.chosen)
    if not cost < inf:
        return "its cost is not known"
    if cost > chosen:
        return f"costs more than {case.chosen.name}"
    if case.why in _POSTPONED:
        return _POSTPONED[case.why]
    if at.tier < case.chosen.tier or cost < chosen:
        return _after_misses(case)
    return f"costs as much as {case.chosen.name}, which is faster"


_POSTPONED = {
    Why.SMALL_SAVING: "saves too little for a move",
    Why.DWELLING: "too soon after the last change to save by a move",
    Why.COOLING_DOWN: "the stream cools down after its last change",
}


def _late(case: Case, at: At) -> str:
    seconds = case.seconds(at)
    if seconds == inf:
        return "its recovery cannot be predicted"
    now = case.predicted[at.interval][at.tier] > case.objective
    takes = "takes" if now else "would soon take"
    return f"{takes} {_seconds(seconds)}, more than {_seconds(case.objective)}"


def _lost(case: Case) -> str:
    if not case.allowed[case.current.tier]:
        return f"{case.current.name} is not allowed"
    return f"{case.current.name} no longer holds: it {_late(case, case.current)}"


def _cheapest(case: Case) -> str:
    within = _seconds(case.objective)
    return f"the cheapest that is back within {within} ({_predicted(case, case.chosen)})"


def _if_margin(case: Case, best: At) -> str:
    if best.tier == case.chosen.tier:
        return ""
    return f"; {best.name} {_after_misses(case)}"


def _after_misses(case: Case) -> str:
    misses = f"{case.recent_misses:g} recent miss{'' if case.recent_misses == 1 else 'es'}"
    return f"holds it with too little margin after {misses}"


def _move(case: Case) -> str:
    """Where it goes; the intervals are told where they are what changes."""
    if case.chosen.tier != case.current.tier:
        return case.chosen.name
    snapshot, sync = _intervals(case, case.chosen)
    return f"{case.chosen.name} with snapshots every {snapshot} and syncs every {sync}"


def _intervals(case: Case, at: At) -> tuple[str, str]:
    return _seconds(case.snapshot_every[at.interval]), _seconds(case.sync_every[at.interval])


def _saving(case: Case, at: At) -> str:
    over = case.current.name if at.tier != case.current.tier else "its present intervals"
    money = case.money_of(case.current) - case.money_of(at)
    if 0 < money < inf:
        return f"{_money(money)} {case.currency}/h over {over}"
    share = 1 - case.cost_of(at) / case.cost_of(case.current)
    return f"{share:.0%} of its cost over {over}"


def _predicted(case: Case, at: At) -> str:
    return f"predicted {_seconds(case.seconds(at))}"


def _seconds(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0") + " s" if value < inf else "an unknown time"


def _money(value: float) -> str:
    return f"{value:.3f}" if value >= 0.01 else f"{value:.6f}"
