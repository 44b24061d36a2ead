"""What the steps of all playbooks have in common, and the plan that follows from them.

A playbook has no program counter: it decides the next step from facts alone. So a plan repeats this
decision, each time with the facts that the step before would leave.
"""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, ClassVar, Protocol, TypeVar

FactsT = TypeVar("FactsT")
StepT = TypeVar("StepT", bound="Step[Any]")

MAX_PLANNED_STEPS = 30


class Step(Protocol[FactsT]):
    """One action of a playbook: a frozen value that says what the action is about."""

    name: ClassVar[str]
    """What the journal stores; it stays when the class is renamed."""

    def describe(self) -> str:
        """What the step will do, in a sentence."""
        ...

    def after(self, facts: FactsT) -> FactsT | None:
        """The facts once the step has succeeded; `None` if the playbook ends with it."""
        ...


def plan_steps(facts: FactsT, decide: Callable[[FactsT], StepT | None]) -> list[StepT]:
    """The steps from these facts on, each assumed to succeed."""
    steps: list[StepT] = []
    current: FactsT | None = facts
    while current is not None and len(steps) < MAX_PLANNED_STEPS:
        step = decide(current)
        if step is None:
            break
        steps.append(step)
        current = step.after(current)
    return steps


def step_fields(step: Step[Any]) -> dict[str, Any]:
    """The fields of a step by name, as the journal stores them."""
    value: Any = step  # a dataclass, which a protocol cannot say
    return asdict(value)
