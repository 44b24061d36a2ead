"""The drill: whom it strikes, whom it leaves alone, and that it ends the same wherever it is cut short."""

from contextlib import suppress
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, strategies as st

from holdfast.ft_policies.health import Health, HealthVerdict
from holdfast.ft_policies.playbooks.base import plan_steps
from holdfast.ft_policies.playbooks.drill import (
    AwaitBack,
    Decline,
    DisturbanceBudget,
    DrillFacts,
    DrillStep,
    Fault,
    InjectedFault,
    InjectFault,
    Predicted,
    Recover,
    Release,
    Report,
    next_step,
)
from holdfast.ft_policies.tiers import Tier
from tests.fakes.stream import Crash

WELL = DrillFacts(
    fault=Fault.KILL,
    wanted=True,
    verdict=HealthVerdict(Health.HEALTHY, "it commits"),
    primary="p1",
    host=None,
    tier=Tier.ACTIVE_STANDBY,
    covered=Tier.ACTIVE_STANDBY,
    is_settled=True,
    predicted=Predicted(seconds=2.5, steps={"detect": 0.5}),
)


def test_a_stream_that_is_well_is_struck_and_what_is_predicted_is_written_down() -> None:
    assert next_step(WELL) == InjectFault(
        primary="p1",
        fault=Fault.KILL,
        tier=Tier.ACTIVE_STANDBY,
        predicted_seconds=2.5,
        predicted_steps={"detect": 0.5},
    )


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (
            replace(WELL, verdict=HealthVerdict(Health.REPLAYING, "behind")),
            "it is replaying: behind",
        ),
        (replace(WELL, incident="i1"), "the recovery i1 is not closed yet"),
        (
            replace(WELL, covered=Tier.DEPLOYED),
            "it should have active_standby, and its replicas cover deployed",
        ),
        (
            replace(WELL, is_settled=False),
            "it should have active_standby, and its replicas cover active_standby",
        ),
        (
            replace(WELL, host="far"),
            "its primary runs on far, and a fault can only be injected from there",
        ),
        (replace(WELL, overdrawn="it was disturbed"), "it was disturbed"),
    ],
)
def test_any_other_stream_is_left_alone(facts: DrillFacts, reason: str) -> None:
    assert next_step(facts) == Decline(reason)
    assert plan_steps(facts, next_step) == [Decline(reason)]


def test_a_plan_has_all_steps_and_a_pause_is_released() -> None:
    names = [step.name for step in plan_steps(replace(WELL, fault=Fault.PAUSE), next_step)]
    assert names == ["InjectFault", "AwaitBack", "Recover", "Release", "Report"]
    assert Release("p1") not in plan_steps(WELL, next_step)


def test_a_stream_that_is_stopped_meanwhile_is_not_brought_back() -> None:
    struck = InjectedFault(primary="p1", fault=Fault.KILL, landed=True)
    stopped = replace(
        WELL, wanted=False, verdict=HealthVerdict(Health.STOPPED, ""), injected=struck
    )
    assert next_step(stopped) == Report("p1")


def test_a_budget_counts_what_is_not_too_long_ago() -> None:
    budget = DisturbanceBudget(most=2, period_seconds=3600.0)
    assert budget.objection([10.0, 3600.0, 7200.0]) is None
    reason = "it was disturbed 2 times in the last 1 h, and the limit is 2"
    assert budget.objection([10.0, 20.0]) == reason
    none = DisturbanceBudget(most=0, period_seconds=3600.0)
    assert none.objection([]) == "its declaration allows no drills"


@dataclass
class SimulatedDrill:
    """A stream whose drill can be killed before or after any action; the journal outlives it."""

    fault: Fault
    has_secondary: bool
    die: dict[int, str]
    primary: str | None = "p1"
    is_settled: bool = True
    paused: bool = False
    cut: bool = False
    struck: str | None = None
    done: set[type] = field(default_factory=set)
    fallen: set[str] = field(default_factory=set)
    acted: int = 0

    def observed(self) -> DrillFacts:
        healthy = self.primary is not None and not (self.paused and self.primary == self.struck)
        return replace(
            WELL,
            fault=self.fault,
            verdict=HealthVerdict(Health.HEALTHY if healthy else Health.MISSING, ""),
            primary=self.primary,
            is_settled=self.is_settled and healthy,
            injected=self._struck(),
            back=healthy and self._is_over(),
            reported=Report in self.done,
        )

    def run(self) -> None:
        while (step := next_step(self.observed())) is not None:
            self.acted += 1
            if isinstance(step, InjectFault):
                self.struck = step.primary  # the intent
            if self.die.get(self.acted) == "before":
                raise Crash
            self._act(step)
            if self.die.get(self.acted) == "after":
                raise Crash
            self.done.add(type(step))

    def _struck(self) -> InjectedFault | None:
        if self.struck is None:
            return None
        return InjectedFault(
            primary=self.struck,
            fault=self.fault,
            landed=InjectFault in self.done or self.struck in self.fallen,
            waited=AwaitBack in self.done,
            lingers=self.paused,
        )

    def _is_over(self) -> bool:
        return not self.cut if self.fault is Fault.CUT_OFF else self.primary != self.struck

    def _act(self, step: DrillStep) -> None:
        match step:
            case InjectFault():
                self._strike(step.primary)
            case AwaitBack():
                self.cut = False
                self._replace(by_itself=True)
            case Recover():
                self._replace(by_itself=False)
                self.is_settled = True
            case Release():
                self.paused = False
            case Report():
                assert self.is_settled
                assert not self.paused
            case Decline():
                raise AssertionError(step)

    def _strike(self, primary: str) -> None:
        if primary != self.primary:
            return
        match self.fault:
            case Fault.KILL:
                self.fallen.add(primary)
                self.primary = None
            case Fault.PAUSE:
                self.paused = True
            case Fault.CUT_OFF:
                self.cut = True

    def _replace(self, *, by_itself: bool) -> None:
        """Another primary, if this one is lost and a standby is there to follow."""
        is_lost = self.fault is not Fault.CUT_OFF and self.primary in (None, self.struck)
        if is_lost and (self.has_secondary or not by_itself):
            self.fallen.add("p1")
            self.primary, self.is_settled = "p2", False


@given(
    fault=st.sampled_from(Fault),
    has_secondary=st.booleans(),
    die=st.dictionaries(st.integers(1, 9), st.sampled_from(["before", "after"])),
)
def test_a_drill_survives_dying_at_any_step_and_strikes_one_replica_only(
    *, fault: Fault, has_secondary: bool, die: dict[int, str]
) -> None:
    drill = SimulatedDrill(fault, has_secondary, die)
    for _ in range(len(die) + 1):
        with suppress(Crash):
            drill.run()
    assert Report in drill.done
    assert drill.primary == ("p1" if fault is Fault.CUT_OFF else "p2")
    assert drill.is_settled
    assert not drill.paused
    assert drill.fallen <= {"p1"}
