"""What all playbooks have in common: the loop, the plan, and what the journal keeps of a step."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import pytest

from holdfast.ft_policies.errors import PermanentError
from holdfast.orchestration.playbooks.base import (
    MAX_STEPS,
    JournalWriter,
    Playbook,
    StepResult,
    StepSkipped,
    plan_playbook,
    run_playbook,
)
from holdfast.resources.control_store.records import Phase
from tests.builders.streams import CLICKS
from tests.fakes.projects import SimulatedProject, simulated_projects


@dataclass(frozen=True, slots=True)
class Count:
    """Counts one up."""

    name: ClassVar = "CountedAsStored"
    to: int

    def describe(self) -> str:
        return f"counts to {self.to}"

    def after(self, facts: int) -> int:
        return self.to


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted(StepResult):
    number: int
    remainder: int | None = None


@dataclass
class Counting(Playbook[int, Count]):
    """Counts to an end; every call is recorded."""

    name: ClassVar = "count"
    end: int
    number: int = 0
    calls: list[str] = field(default_factory=list)
    fails_at: int | None = None

    def begin(self) -> None:
        self.calls.append("begin")

    def observe(self) -> int:
        return self.number

    def decide(self, facts: int) -> Count | None:
        return Count(facts + 1) if facts < self.end else None

    def act(self, step: Count) -> StepResult:
        if step.to == self.fails_at:
            raise PermanentError("it does not count", hint="learn it")
        self.number = step.to
        return Counted(number=step.to)

    def conclude(self) -> None:
        self.calls.append("conclude")

    def close(self) -> None:
        self.calls.append("close")


@pytest.fixture
def project(tmp_path: Path) -> Iterator[SimulatedProject]:
    with simulated_projects(tmp_path).open() as project:
        yield project


@pytest.fixture
def journal(project: SimulatedProject) -> JournalWriter:
    return JournalWriter(project=project, stream=CLICKS, playbook="count", run="r")


def test_what_is_requested_is_recorded_at_once_and_the_steps_follow(journal: JournalWriter) -> None:
    counting = Counting(2)
    steps = run_playbook(counting, journal)
    assert counting.calls == ["begin"]
    assert [(done.name, done.result) for done in steps] == [
        ("CountedAsStored", Counted(number=1)),
        ("CountedAsStored", Counted(number=2)),
    ]
    assert counting.calls == ["begin", "conclude", "close"]


def test_a_plan_is_the_same_decision_again_and_again_and_changes_nothing(
    project: SimulatedProject,
) -> None:
    counting = Counting(3)
    assert [step.describe() for step in plan_playbook(counting)] == [
        "counts to 1",
        "counts to 2",
        "counts to 3",
    ]
    assert counting.calls == []
    assert project.store.journal.of(CLICKS) == []


def test_the_journal_keeps_the_name_the_fields_and_the_result_of_a_step(
    project: SimulatedProject, journal: JournalWriter
) -> None:
    list(run_playbook(Counting(1), journal))
    intent, done = project.store.journal.of(CLICKS)
    assert (intent.step, intent.phase) == ("CountedAsStored", Phase.INTENT)
    assert (done.phase, done.detail) == (Phase.DONE, {"to": 1, "number": 1})


def test_a_step_that_fails_is_written_down_and_ends_the_run(
    project: SimulatedProject, journal: JournalWriter
) -> None:
    counting = Counting(3, fails_at=2)
    with pytest.raises(PermanentError, match="it does not count"):
        list(run_playbook(counting, journal))
    assert counting.calls == ["begin", "close"]
    failed = project.store.journal.of(CLICKS)[-1]
    assert failed.phase is Phase.FAILED
    assert failed.detail == {"to": 2, "error": "it does not count", "hint": "learn it"}


def test_a_playbook_that_does_not_end_is_stopped(journal: JournalWriter) -> None:
    counting = Counting(MAX_STEPS + 1)
    with pytest.raises(PermanentError, match=f"did not end within {MAX_STEPS} steps"):
        list(run_playbook(counting, journal))
    assert counting.calls == ["begin", "close"]


def test_a_playbook_inside_another_is_written_down_as_the_outer_one(
    project: SimulatedProject, journal: JournalWriter
) -> None:
    list(run_playbook(Counting(1), replace(journal, playbook="outer")))
    assert {line.playbook for line in project.store.journal.of(CLICKS)} == {"outer"}


def test_a_result_leaves_out_what_is_not_known() -> None:
    assert Counted(number=1).as_dict() == {"number": 1}
    assert StepResult().as_dict() == {}
    assert StepSkipped().as_dict() == {"skipped": "another step is due by now"}
