"""The drill: a failure on purpose, to see that the stream comes back as it should.

Only a stream that is well is struck, and not more often than it may be disturbed. Whom it strikes is
written down first, so that whoever finds a drill half done brings it to its end: the stream comes back
by itself or is brought back, and what it took is told beside what was predicted.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from ft_policies.health import Health, Verdict
from ft_policies.tiers import Tier

PLAYBOOK = "drill"
CUT_OFF_SECONDS = 30.0
HOUR = 3600.0


class Blow(StrEnum):
    """What is done to the primary."""

    KILL = "kill"
    """Its driver is ended at once."""
    PAUSE = "pause"
    """Its processes stand still: it holds on to what it has, and says nothing."""
    CUT_OFF = "cut_off"
    """The object store does not answer it for a while."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DisturbanceBudget:
    """How often a stream may be disturbed, by drills and by real failures together."""

    most: int
    period_seconds: float

    def objection(self, ages: Iterable[float]) -> str | None:
        """Why it may not be disturbed again; the ages of earlier disturbances are in seconds."""
        if self.most == 0:
            return "its declaration allows no drill"
        recent = sum(age < self.period_seconds for age in ages)
        if recent < self.most:
            return None
        period = f"{self.period_seconds / HOUR:g} h"
        return f"it was disturbed {recent} times in the last {period}, and may be {self.most} times"


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """What a recovery in the tier that is covered should take; `None` is not known."""

    seconds: float | None = None
    steps: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Struck:
    """A drill that was begun: whom it strikes, and how far it has come."""

    primary: str
    blow: Blow
    landed: bool = False
    waited: bool = False
    """Whether somebody has watched for the stream to come back by itself."""
    lingers: bool = False
    """Whether the processes of the struck one still stand still."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A stream that is to be struck, or was, as one look shows it."""

    blow: Blow
    wanted: bool
    verdict: Verdict
    primary: str | None
    host: str | None
    """Where the primary runs, if that is not here."""
    tier: Tier
    covered: Tier
    is_settled: bool
    incident: str | None = None
    """The recovery that is not closed yet."""
    overdrawn: str | None = None
    """Why it may not be disturbed again so soon."""
    predicted: Predicted = Predicted()
    struck: Struck | None = None
    back: bool = False
    """Whether the stream is level without the one that was struck; a cut has healed by then."""
    reported: bool = False


@dataclass(frozen=True, slots=True)
class Decline:
    """Leave the stream alone."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """Strike the primary, with what is predicted written down before."""

    primary: str
    blow: Blow
    tier: Tier
    predicted_seconds: float | None
    predicted_steps: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class AwaitBack:
    """Watch the stream come back by itself, as it would have to without a drill."""

    primary: str


@dataclass(frozen=True, slots=True)
class Recover:
    """Do what the recover playbook does, until the stream is well and its tier is held."""


@dataclass(frozen=True, slots=True)
class Release:
    """Let the processes that stood still go on: they find that they have lost, and leave."""

    primary: str


@dataclass(frozen=True, slots=True)
class Report:
    """Tell what the recovery took, beside what was predicted and what is allowed."""

    primary: str


Step: TypeAlias = Decline | Strike | AwaitBack | Recover | Release | Report


def next_step(seen: Observed) -> Step | None:
    """The one step that comes next; `None` when the drill has been reported."""
    struck = seen.struck
    if seen.reported:
        return None
    if struck is None:
        reason = objection(seen)
        return Decline(reason) if reason is not None else _strike(seen, seen.primary, seen.blow)
    if not struck.landed:
        return _strike(seen, struck.primary, struck.blow)
    if seen.wanted and not seen.back and not struck.waited:
        return AwaitBack(struck.primary)
    if seen.wanted and not (seen.back and seen.is_settled):
        return Recover()
    if struck.lingers:
        return Release(struck.primary)
    return Report(struck.primary)


def objection(seen: Observed) -> str | None:
    """Why the stream must not be struck now; `None` if it may."""
    if seen.verdict.health is not Health.HEALTHY:
        return f"it is {seen.verdict.health}: {seen.verdict.reason}"
    if seen.incident is not None:
        return f"the recovery {seen.incident} is not closed yet"
    if not seen.is_settled or seen.covered.strength < seen.tier.strength:
        return f"it should have {seen.tier}, and its replicas are good for {seen.covered}"
    if seen.host is not None:
        return f"its primary runs on {seen.host}, and can only be struck from there"
    return seen.overdrawn


def foreseen(seen: Observed) -> list[Step]:
    """The steps that a drill takes if all goes well."""
    first = next_step(seen)
    if not isinstance(first, Strike):
        return [] if first is None else [first]
    release = [Release(first.primary)] if first.blow is Blow.PAUSE else []
    return [first, AwaitBack(first.primary), Recover(), *release, Report(first.primary)]


def _strike(seen: Observed, primary: str | None, blow: Blow) -> Strike:
    if primary is None:
        raise ValueError(f"{seen.verdict.health} without a primary: {seen}")
    return Strike(
        primary=primary,
        blow=blow,
        tier=seen.covered,
        predicted_seconds=seen.predicted.seconds,
        predicted_steps=seen.predicted.steps,
    )
