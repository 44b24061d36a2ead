"""Decision records: what was known, what each tier would do and cost, what was chosen and why."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import inf, isfinite
from typing import Any

from ft_policies.controller import Choice, ControllerPolicy, Situation, Why
from ft_policies.errors import PermanentError
from ft_policies.reasons import At, Case, reason, rejected
from ft_policies.recovery_model import STEPS, TIERS, FloatArray, Load, RecoveryStep
from ft_policies.tiers import Guarantee, Tier


class Mode(StrEnum):
    """What becomes of a decision."""

    AUTO = "auto"
    """It is carried out."""
    ADVISE = "advise"
    """It is shown only."""
    PINNED = "pinned"
    """It is shown only: the declaration names the tier."""


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
        raise NotImplementedError

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "Decision":
        """What `to_json` gave."""
        raise NotImplementedError


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
    raise NotImplementedError
