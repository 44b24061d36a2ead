"""Decision records: what was known, what each tier would do and cost, what was chosen and why."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import inf, isfinite
from typing import Any

import numpy as np

from ft_policies.errors import PermanentError
from ft_policies.prediction.steps import STEPS, TIERS, FloatArray, Load, RecoveryStep
from ft_policies.tiering.controller import Choice, ControllerPolicy, Situation, Why
from ft_policies.tiering.explanation import At, Case, reason, rejected
from ft_policies.tiers import Guarantee, Mode, Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFacts:
    """What a record tells of one stream beside its situation; arrays over its k intervals."""

    stream: str
    mode: Mode
    guarantee: Guarantee
    load: Load
    """Of floats."""
    snapshot_every: FloatArray
    sync_every: FloatArray
    steps: FloatArray
    """Seconds (k, 6 tiers, 6 steps), as `StepSeconds.of_tiers` gives them."""
    money_per_hour: FloatArray
    """(k, 6)."""
    currency: str
    missing: tuple[RecoveryStep, ...] = ()
    """The steps with too little data."""
    paid_seconds: float = 0.0
    """How long the secondary is paid for still, where hours are paid once they start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierVerdict:
    """A tier as it was judged, at the intervals that suit it; infinite is what is not known."""

    tier: Tier
    snapshot_every: float
    sync_every: float
    seconds: float
    seconds_ahead: float
    """At the load that is expected once a change has finished."""
    steps: Mapping[RecoveryStep, float]
    """Those that it goes through."""
    cost: float
    money_per_hour: float
    rejected: str | None
    """Why; `None` for the chosen one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a stream should have, with everything that led to it."""

    stream: str
    at: float
    mode: Mode
    objective_seconds: float
    guarantee: Guarantee
    load: Load
    currency: str
    tiers: tuple[TierVerdict, ...]
    current: Tier
    chosen: Tier
    snapshot_every: float
    sync_every: float
    acts: bool
    why: Why
    reason: str

    def to_json(self) -> dict[str, Any]:
        """As JSON values; what is infinite is `null`."""
        return {
            "stream": self.stream,
            "at": self.at,
            "mode": self.mode.value,
            "objective_seconds": _written(self.objective_seconds),
            "guarantee": self.guarantee.value,
            "load": {name: _written(float(getattr(self.load, name))) for name in _LOAD},
            "currency": self.currency,
            "tiers": [_verdict_to_json(verdict) for verdict in self.tiers],
            "current": self.current.value,
            "chosen": self.chosen.value,
            "snapshot_every": _written(self.snapshot_every),
            "sync_every": _written(self.sync_every),
            "acts": self.acts,
            "why": self.why.name.lower(),
            "reason": self.reason,
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "Decision":
        """What `to_json` gave."""
        try:
            return cls(
                stream=record["stream"],
                at=record["at"],
                mode=Mode(record["mode"]),
                objective_seconds=_read(record["objective_seconds"]),
                guarantee=Guarantee(record["guarantee"]),
                load=Load(**{name: _read(record["load"][name]) for name in _LOAD}),
                currency=record["currency"],
                tiers=tuple(_verdict_from_json(verdict) for verdict in record["tiers"]),
                current=Tier(record["current"]),
                chosen=Tier(record["chosen"]),
                snapshot_every=_read(record["snapshot_every"]),
                sync_every=_read(record["sync_every"]),
                acts=record["acts"],
                why=Why[record["why"].upper()],
                reason=record["reason"],
            )
        except (AttributeError, KeyError, TypeError, ValueError) as broken:
            raise PermanentError(
                f"this is no decision record: {broken!r} in {record}",
                hint="it was written by another version, or by hand; the next review writes a new one",
            ) from broken


_LOAD = tuple(field.name for field in fields(Load))
_MEASURES = (
    "snapshot_every",
    "sync_every",
    "seconds",
    "seconds_ahead",
    "cost",
    "money_per_hour",
)


def _verdict_to_json(verdict: TierVerdict) -> dict[str, Any]:
    return {
        "tier": verdict.tier.value,
        **{name: _written(getattr(verdict, name)) for name in _MEASURES},
        "steps": {step.value: _written(seconds) for step, seconds in verdict.steps.items()},
        "rejected": verdict.rejected,
    }


def _verdict_from_json(verdict: Mapping[str, Any]) -> TierVerdict:
    return TierVerdict(
        tier=Tier(verdict["tier"]),
        **{name: _read(verdict[name]) for name in _MEASURES},
        steps={RecoveryStep(step): _read(seconds) for step, seconds in verdict["steps"].items()},
        rejected=verdict["rejected"],
    )


def _written(value: float) -> float | None:
    return value if isfinite(value) else None


def _read(value: float | None) -> float:
    return inf if value is None else value


def decision(
    index: int,
    situation: Situation,
    choice: Choice,
    policy: ControllerPolicy,
    facts: StreamFacts,
    *,
    at: float,
) -> Decision:
    """The record of one stream of a situation."""
    case = _case(index, situation, choice, policy, facts)
    chosen, differs = case.chosen, case.chosen != case.current
    return Decision(
        stream=facts.stream,
        at=at,
        mode=facts.mode,
        objective_seconds=case.objective,
        guarantee=facts.guarantee,
        load=facts.load,
        currency=facts.currency,
        tiers=tuple(_verdict(case, tier, facts) for tier in range(len(TIERS))),
        current=case.current.name,
        chosen=chosen.name,
        snapshot_every=case.snapshot_every[chosen.interval],
        sync_every=case.sync_every[chosen.interval],
        acts=differs and facts.mode is Mode.AUTO,
        why=case.why,
        reason=_in_mode(facts.mode, case.current.name, reason(case), differs=differs),
    )


def _case(
    index: int,
    situation: Situation,
    choice: Choice,
    policy: ControllerPolicy,
    facts: StreamFacts,
) -> Case:
    return Case(
        policy=policy,
        predicted=_known(situation.predicted[index]),
        ahead=_known(situation.predicted_ahead[index]),
        cost=_known(situation.cost[index]),
        money_per_hour=_known(facts.money_per_hour),
        currency=facts.currency,
        snapshot_every=facts.snapshot_every.tolist(),
        sync_every=facts.sync_every.tolist(),
        objective=float(situation.objective[index]),
        allowed=situation.allowed[index].tolist(),
        enough=bool(situation.enough[index]),
        missing=facts.missing,
        paid_seconds=facts.paid_seconds,
        current=At(int(situation.current[index]), int(situation.current_interval[index])),
        chosen=At(int(choice.tier[index]), int(choice.interval[index])),
        best=int(choice.best[index]),
        why=Why(int(choice.why[index])),
        since_change=float(situation.since_change[index]),
        recent_misses=float(situation.recent_misses[index]),
    )


def _known(numbers: FloatArray) -> list[list[float]]:
    known: list[list[float]] = np.where(np.isnan(numbers), inf, numbers).tolist()
    return known


def _verdict(case: Case, tier: int, facts: StreamFacts) -> TierVerdict:
    at = case.shown(tier)
    steps = zip(STEPS, facts.steps[at.interval, tier].tolist(), strict=True)
    return TierVerdict(
        tier=at.name,
        snapshot_every=case.snapshot_every[at.interval],
        sync_every=case.sync_every[at.interval],
        seconds=case.predicted[at.interval][tier],
        seconds_ahead=case.ahead[at.interval][tier],
        steps={step: seconds for step, seconds in steps if seconds > 0},
        cost=case.cost_of(at),
        money_per_hour=case.money_of(at),
        rejected=rejected(case, at),
    )


def _in_mode(mode: Mode, current: Tier, sentence: str, *, differs: bool) -> str:
    if mode is Mode.AUTO or not differs:
        return sentence
    if mode is Mode.ADVISE:
        return f"advice only: {sentence}"
    return f"pinned to {current}, else: {sentence}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """What a stream would have, and pay for fault tolerance, if it had to be back in so many seconds."""

    objective_seconds: float
    tier: Tier
    """The cheapest that holds it with the stream's margin; if none does, the fastest."""
    seconds: float
    """How long a recovery is predicted to take there; infinite if that is not known."""
    money_per_hour: float
    """What it adds to the primary's bill."""
    weighted: float
    """The same in the thesis' normalised units."""
    holds: bool
    snapshot_every: float
    sync_every: float
