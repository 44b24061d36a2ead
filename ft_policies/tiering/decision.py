"""Decisions as records: the inputs, what each tier would take and cost, the choice, and why.

`what_if` chooses from the same candidates for other objectives.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import inf, isfinite
from typing import Any

import numpy as np

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.prediction.steps import STEPS, TIERS, FloatArray, Load, RecoveryStep
from holdfast.ft_policies.tiering.candidates import Candidates
from holdfast.ft_policies.tiering.controller import Choice, ControllerPolicy, Why
from holdfast.ft_policies.tiering.explanation import StreamChoice, explain_choice, explain_rejection
from holdfast.ft_policies.tiers import Guarantee, Mode, Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class TierOption:
    """A tier as it was evaluated, at the intervals that suit it; what is unknown is infinite."""

    tier: Tier
    snapshot_every: float
    sync_every: float
    seconds: float
    seconds_ahead: float
    """At the load that is expected once a change has finished."""
    steps: Mapping[RecoveryStep, float]
    """The steps that a recovery in this tier goes through."""
    cost: float
    money_per_hour: float
    rejected: str | None
    """Why; `None` for the chosen tier."""
    calibration: str | None = None
    """What the prediction is worth, in words; `None` in records of older versions and by the thesis."""

    @classmethod
    def of(cls, row: StreamChoice, tier: int) -> "TierOption":
        """The option that represents a tier of one stream."""
        candidate = row.representative(tier)
        steps = row.candidates.steps[row.index, *candidate].tolist()
        return cls(
            tier=TIERS[tier],
            snapshot_every=row.snapshot_every(candidate),
            sync_every=row.sync_every(candidate),
            seconds=row.seconds_now(candidate),
            seconds_ahead=row.seconds_ahead(candidate),
            steps={step: took for step, took in zip(STEPS, steps, strict=True) if took > 0},
            cost=row.cost(candidate),
            money_per_hour=row.money_per_hour(candidate),
            rejected=explain_rejection(row, candidate),
            calibration=row.calibration(tier),
        )

    def to_json(self) -> dict[str, Any]:
        """As JSON values; what is infinite is `null`."""
        return {
            "tier": self.tier.value,
            **{name: _finite_or_null(getattr(self, name)) for name in _MEASURES},
            "steps": {step.value: _finite_or_null(took) for step, took in self.steps.items()},
            "rejected": self.rejected,
            "calibration": self.calibration,
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "TierOption":
        """The inverse of `to_json`."""
        return cls(
            tier=Tier(record["tier"]),
            **{name: _null_as_inf(record[name]) for name in _MEASURES},
            steps={
                RecoveryStep(step): _null_as_inf(took) for step, took in record["steps"].items()
            },
            rejected=record["rejected"],
            calibration=record.get("calibration"),
        )


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
    tiers: tuple[TierOption, ...]
    current: Tier
    chosen: Tier
    snapshot_every: float
    sync_every: float
    acts: bool
    """Whether the choice differs from what the stream has, and is to be carried out."""
    why: Why
    reason: str

    @classmethod
    def of(cls, candidates: Candidates, choice: Choice, index: int) -> "Decision":
        """The decision about one of the streams."""
        row, inputs = StreamChoice(candidates, choice, index), candidates.streams[index]
        current, chosen = row.current, row.chosen
        return cls(
            stream=inputs.stream,
            at=candidates.at,
            mode=inputs.mode,
            objective_seconds=row.objective,
            guarantee=inputs.guarantee,
            load=inputs.load,
            currency=candidates.currency,
            tiers=tuple(TierOption.of(row, tier) for tier in range(len(TIERS))),
            current=TIERS[current[1]],
            chosen=TIERS[chosen[1]],
            snapshot_every=row.snapshot_every(chosen),
            sync_every=row.sync_every(chosen),
            acts=chosen != current and inputs.mode is Mode.AUTO,
            why=row.why,
            reason=explain_choice(row),
        )

    def to_json(self) -> dict[str, Any]:
        """As JSON values; what is infinite is `null`."""
        return {
            "stream": self.stream,
            "at": self.at,
            "mode": self.mode.value,
            "objective_seconds": _finite_or_null(self.objective_seconds),
            "guarantee": self.guarantee.value,
            "load": {name: _finite_or_null(float(getattr(self.load, name))) for name in _LOAD},
            "currency": self.currency,
            "tiers": [option.to_json() for option in self.tiers],
            "current": self.current.value,
            "chosen": self.chosen.value,
            "snapshot_every": _finite_or_null(self.snapshot_every),
            "sync_every": _finite_or_null(self.sync_every),
            "acts": self.acts,
            "why": self.why.name.lower(),
            "reason": self.reason,
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "Decision":
        """The inverse of `to_json`; raises `PermanentError` for what is no decision record."""
        try:
            return cls(
                stream=record["stream"],
                at=record["at"],
                mode=Mode(record["mode"]),
                objective_seconds=_null_as_inf(record["objective_seconds"]),
                guarantee=Guarantee(record["guarantee"]),
                load=Load(**{name: _null_as_inf(took) for name, took in record["load"].items()}),
                currency=record["currency"],
                tiers=tuple(TierOption.from_json(option) for option in record["tiers"]),
                current=Tier(record["current"]),
                chosen=Tier(record["chosen"]),
                snapshot_every=_null_as_inf(record["snapshot_every"]),
                sync_every=_null_as_inf(record["sync_every"]),
                acts=record["acts"],
                why=Why[record["why"].upper()],
                reason=record["reason"],
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise PermanentError(
                f"not a decision record: {error!r} in {record}",
                hint="wait for the next review, which writes a new record: this one was edited, or written by another version",
            ) from error


_LOAD = tuple(field.name for field in fields(Load))
_MEASURES = (
    "snapshot_every",
    "sync_every",
    "seconds",
    "seconds_ahead",
    "cost",
    "money_per_hour",
)


def _finite_or_null(value: float) -> float | None:
    return value if isfinite(value) else None


def _null_as_inf(value: float | None) -> float:
    return inf if value is None else value


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """What a stream would have, and pay for fault tolerance, with another objective."""

    objective_seconds: float
    tier: Tier
    """The cheapest that meets the objective with the stream's margin; if none does, the fastest."""
    seconds: float
    """The predicted recovery time in this tier; infinite if it is unknown."""
    money_per_hour: float
    """On top of the primary."""
    weighted: float
    """The same in the normalised units of the thesis."""
    holds: bool
    snapshot_every: float
    sync_every: float


def what_if(
    candidates: Candidates,
    policy: ControllerPolicy,
    weighted: FloatArray,
    objectives: Sequence[float],
) -> list[WhatIf]:
    """What one stream would come down to from its fastest tier with these objectives, in time.

    `weighted` is the cost of its candidates in the units of the thesis, (intervals, tiers).
    """
    eager = replace(policy, cool_down_seconds=0.0, dwell_seconds=0.0)
    fastest = replace(
        candidates, current=candidates.allowed.argmax(axis=1), recent_misses=np.zeros(1)
    )
    points = []
    for objective in objectives:
        varied = replace(fastest, objective=np.array([objective]))
        row = StreamChoice(varied, eager.choose(varied), 0)
        chosen = row.chosen
        seconds = row.seconds(chosen)
        points.append(
            WhatIf(
                objective_seconds=objective,
                tier=TIERS[chosen[1]],
                seconds=seconds,
                money_per_hour=row.money_per_hour(chosen),
                weighted=float(weighted[chosen]),
                holds=seconds <= objective,
                snapshot_every=row.snapshot_every(chosen),
                sync_every=row.sync_every(chosen),
            )
        )
    return points
