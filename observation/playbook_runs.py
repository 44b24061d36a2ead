"""What playbooks did to a stream lately, read from the journal: each run with its steps, and the
step that somebody is at now.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.ft_policies.playbooks.recover.steps import switch_change
from holdfast.ft_policies.timings import BETWEEN_STEPS_SECONDS
from holdfast.resources.control_store.records import JournalLine, Phase
from holdfast.resources.control_store.store import ControlStore

CHANGING = ("switch", "recover", "migrate")
LINES = 200
ABOUT = ("secondary", "primary", "replica")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSeen:
    """A step of a playbook: under way, done or failed; `at` is when that began to be so."""

    step: str
    about: str
    phase: Phase
    at: float
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One run of a playbook that changes the replicas of a stream."""

    playbook: str
    run: str
    began_at: float
    steps: list[StepSeen] = field(default_factory=list)

    @property
    def doing(self) -> StepSeen | None:
        """The step that was begun and of which nothing has been heard since."""
        return self.steps[-1] if self.steps and self.steps[-1].phase is Phase.INTENT else None


def recent_changes(store: ControlStore, stream: str) -> list[Change]:
    """The newest runs of recover and switch; the one that wrote last comes last."""
    return _gathered(store.journal.of(stream, limit=LINES))


def under_way(changes: list[Change], *, at: float) -> Change | None:
    """The change whose step is the last word of the journal, or has just been done.

    Whoever performs it may be dead, or have nothing left to do: the step's age tells, and whether
    the stream lacks anything.
    """
    if not changes:
        return None
    last = changes[-1].steps[-1]
    between = last.phase is Phase.DONE and at - last.at < BETWEEN_STEPS_SECONDS
    return changes[-1] if between or last.phase is Phase.INTENT else None


def about(step: Mapping[str, Any]) -> str:
    """`receive on` for a step that turns a switch, otherwise the replica that it is about."""
    turn = switch_change(step)
    if turn is not None:
        return str(turn)
    return str(next((step[key] for key in ABOUT if step.get(key)), ""))


def _gathered(lines: Iterable[JournalLine]) -> list[Change]:
    """Journal lines as runs, by the time of their last line."""
    runs: dict[str, Change] = {}
    for line in lines:
        if line.playbook not in CHANGING:
            continue
        change = runs.pop(line.run, None) or Change(
            playbook=line.playbook, run=line.run, began_at=line.at
        )
        if line.phase is not Phase.INTENT and change.doing is not None:
            change.steps.pop()
        change.steps.append(_step(line))
        runs[line.run] = change
    return list(runs.values())


def _step(line: JournalLine) -> StepSeen:
    return StepSeen(
        step=line.step, about=about(line.detail), phase=line.phase, at=line.at, seconds=line.seconds
    )
