"""The drill: a fault is injected on purpose, to prove that the stream recovers as it should.

A fault is injected only into a healthy stream, and only within its disturbance budget. The target is
recorded first, so that the next run can finish an interrupted drill: the stream recovers by itself or is
recovered, and the outcome is reported beside the prediction.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias

from holdfast.ft_policies import quantities
from holdfast.ft_policies.health import Health, HealthVerdict
from holdfast.ft_policies.tiers import Tier

PLAYBOOK = "drill"
CUT_OFF_SECONDS = 30.0
HOUR = 3600.0


class Fault(StrEnum):
    """The faults that a drill can inject into the primary."""

    KILL = "kill"
    """Its driver is killed."""
    PAUSE = "pause"
    """Its processes are stopped: it keeps what it holds, and reports nothing."""
    CUT_OFF = "cut_off"
    """The object store does not answer it for a while."""


_EFFECTS: Mapping[Fault, str] = MappingProxyType(
    {
        Fault.KILL: "kills the driver of {}, with its JVM",
        Fault.PAUSE: "stops the processes of {} where they are (SIGSTOP)",
        Fault.CUT_OFF: "blocks the object store for {} for a while",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DisturbanceBudget:
    """How often a stream may be disturbed, by drills and by real failures together."""

    most: int
    period_seconds: float

    def objection(self, ages: Iterable[float]) -> str | None:
        """Why it may not be disturbed again; the ages of earlier disturbances are in seconds."""
        if self.most == 0:
            return "its declaration allows no drills"
        recent = sum(age < self.period_seconds for age in ages)
        if recent < self.most:
            return None
        period = f"{self.period_seconds / HOUR:g} h"
        return f"it was disturbed {recent} times in the last {period}, and the limit is {self.most}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """The predicted recovery time in the covered tier; `None` if it is unknown."""

    seconds: float | None = None
    steps: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectedFault:
    """A drill that has begun: its target and its progress."""

    primary: str
    fault: Fault
    landed: bool = False
    waited: bool = False
    """Whether a run has waited for the stream to recover by itself."""
    lingers: bool = False
    """Whether the processes of the target are still paused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillFacts:
    """A stream before or during a drill."""

    fault: Fault
    wanted: bool
    verdict: HealthVerdict
    primary: str | None
    host: str | None
    """The host of the primary, if it is another one."""
    tier: Tier
    covered: Tier
    is_settled: bool
    incident: str | None = None
    """A recovery that is not closed yet."""
    overdrawn: str | None = None
    """Why the disturbance budget does not allow another drill now."""
    predicted: Predicted = Predicted()
    injected: InjectedFault | None = None
    back: bool = False
    """Whether the stream has caught up without the target; after `cut_off`, whether it ships again."""
    reported: bool = False


@dataclass(frozen=True, slots=True)
class Decline:
    """Leave the stream alone."""

    name: ClassVar = "Decline"
    reason: str

    def describe(self) -> str:
        return f"leaves the stream alone: {self.reason}"

    def after(self, facts: DrillFacts) -> None:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectFault:
    """Inject the fault into the primary, with the prediction recorded before."""

    name: ClassVar = "InjectFault"
    primary: str
    fault: Fault
    tier: Tier
    predicted_seconds: float | None
    predicted_steps: Mapping[str, float]

    def describe(self) -> str:
        seconds = self.predicted_seconds
        predicted = (
            "no prediction yet" if seconds is None else f"predicted: {quantities.seconds(seconds)}"
        )
        return f"{_EFFECTS[self.fault].format(self.primary)}; in {self.tier}, {predicted}"

    def after(self, facts: DrillFacts) -> DrillFacts:
        lingers = self.fault is Fault.PAUSE
        injected = InjectedFault(
            primary=self.primary, fault=self.fault, landed=True, lingers=lingers
        )
        return replace(facts, injected=injected, is_settled=False)


@dataclass(frozen=True, slots=True)
class AwaitBack:
    """Wait for the stream to recover by itself, as it would have to without a drill."""

    name: ClassVar = "AwaitBack"
    primary: str

    def describe(self) -> str:
        return "waits until the stream has recovered by itself, and measures the time"

    def after(self, facts: DrillFacts) -> DrillFacts:
        return replace(facts, injected=_with(facts.injected, waited=True), back=True)


@dataclass(frozen=True, slots=True)
class Recover:
    """Run the recover playbook until the stream is healthy and its tier is covered."""

    name: ClassVar = "Recover"

    def describe(self) -> str:
        return "recovers what is still missing, at least the secondary"

    def after(self, facts: DrillFacts) -> DrillFacts:
        return replace(facts, back=True, is_settled=True)


@dataclass(frozen=True, slots=True)
class Release:
    """Resume the paused processes: they find that they have lost the lease, and leave."""

    name: ClassVar = "Release"
    primary: str

    def describe(self) -> str:
        return f"resumes {self.primary}: it finds that it has lost the lease, and leaves"

    def after(self, facts: DrillFacts) -> DrillFacts:
        return replace(facts, injected=_with(facts.injected, lingers=False))


@dataclass(frozen=True, slots=True)
class Report:
    """Report the recovery time beside the prediction and the objective."""

    name: ClassVar = "Report"
    primary: str

    def describe(self) -> str:
        return "reports the recovery time beside the prediction and the objective"

    def after(self, facts: DrillFacts) -> DrillFacts:
        return replace(facts, reported=True)


DrillStep: TypeAlias = Decline | InjectFault | AwaitBack | Recover | Release | Report


def next_step(facts: DrillFacts) -> DrillStep | None:
    """The one step that comes next; `None` when the drill has been reported."""
    injected = facts.injected
    if facts.reported:
        return None
    if injected is None:
        reason = objection(facts)
        return Decline(reason) if reason is not None else _inject(facts, facts.primary, facts.fault)
    if not injected.landed:
        return _inject(facts, injected.primary, injected.fault)
    if facts.wanted and not facts.back and not injected.waited:
        return AwaitBack(injected.primary)
    if facts.wanted and not (facts.back and facts.is_settled):
        return Recover()
    if injected.lingers:
        return Release(injected.primary)
    return Report(injected.primary)


def objection(facts: DrillFacts) -> str | None:
    """Why the stream must not be drilled now; `None` if it may."""
    if facts.verdict.health is not Health.HEALTHY:
        return f"it is {facts.verdict.health}: {facts.verdict.reason}"
    if facts.incident is not None:
        return f"the recovery {facts.incident} is not closed yet"
    if not facts.is_settled or facts.covered.strength < facts.tier.strength:
        return f"it should have {facts.tier}, and its replicas cover {facts.covered}"
    if facts.host is not None:
        return f"its primary runs on {facts.host}, and a fault can only be injected from there"
    return facts.overdrawn


def _inject(facts: DrillFacts, primary: str | None, fault: Fault) -> InjectFault:
    if primary is None:
        raise ValueError(f"{facts.verdict.health} without a primary: {facts}")
    return InjectFault(
        primary=primary,
        fault=fault,
        tier=facts.covered,
        predicted_seconds=facts.predicted.seconds,
        predicted_steps=facts.predicted.steps,
    )


def _with(injected: InjectedFault | None, **changes: Any) -> InjectedFault | None:
    return None if injected is None else replace(injected, **changes)
