"""What the journal tells of drills: one that is not at its end yet, and those that have been reported."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.ft_policies.playbooks.drill import (
    PLAYBOOK,
    AwaitBack,
    DrillStep,
    Fault,
    InjectFault,
    Report,
)
from holdfast.ft_policies.tiers import Tier
from holdfast.ft_policies.timings import DRILL_WITHIN_SECONDS
from holdfast.observation.recovery_history import LONGEST_LOSS_SECONDS
from holdfast.resources.control_store.records import IncidentSubject, JournalLine, Phase
from holdfast.resources.control_store.tables.incidents import RECOVERY
from holdfast.resources.project import Project


@dataclass(frozen=True, slots=True)
class OpenDrill:
    """A drill that has not been reported: its lines, the injected fault first."""

    lines: Sequence[JournalLine]

    @property
    def at(self) -> float:
        """When it was begun."""
        return self.lines[0].at

    @property
    def primary(self) -> str:
        """The target of the fault."""
        return str(self._said["primary"])

    @property
    def fault(self) -> Fault:
        """The fault."""
        return Fault(self._said["fault"])

    @property
    def tier(self) -> Tier:
        """The tier that was covered then."""
        return Tier(self._said["tier"])

    @property
    def predicted_seconds(self) -> float | None:
        """What the recovery should take."""
        seconds = self._said["predicted_seconds"]
        return None if seconds is None else float(seconds)

    def detail_of(self, step: type[DrillStep]) -> dict[str, Any] | None:
        """What the journal has of the last time that a step was done; `None` if it never was."""
        done = [one for one in self.lines if _is(one, step, Phase.DONE)]
        return done[-1].detail if done else None

    @property
    def _said(self) -> dict[str, Any]:
        return self.lines[0].detail


def last_open(lines: Sequence[JournalLine]) -> OpenDrill | None:
    """The last drill, unless it has been reported or the fault could not be injected."""
    current: list[JournalLine] = []
    for line in lines:
        if _is(line, InjectFault, Phase.INTENT) and not _continues(current, line):
            current = [line]
        elif _is(line, Report, Phase.DONE) or _is(line, InjectFault, Phase.FAILED):
            current = []
        elif current:
            current.append(line)
    return OpenDrill(current) if current else None


def open_drill(world: Project, stream: str, *, at: float) -> OpenDrill | None:
    """The drill of a stream that is to be finished."""
    since = at - DRILL_WITHIN_SECONDS
    return last_open(world.store.journal.since(stream, PLAYBOOK, at=since))


def waited(drill: OpenDrill) -> bool:
    """Whether a run has watched for the stream to come back."""
    return drill.detail_of(AwaitBack) is not None


def disturbed_at(world: Project, stream: str, *, since_at: float) -> list[float]:
    """When a stream was disturbed, by drills and by failures that were none."""
    lines = world.store.journal.since(stream, PLAYBOOK, at=since_at)
    drills = list(_injected_at(lines))
    real = [
        one.opened_at
        for one in world.store.incidents.of(stream, open_only=False)
        if one.kind == RECOVERY
        and one.subject is IncidentSubject.PRIMARY
        and one.opened_at >= since_at
    ]
    of_drills = [(at, at + LONGEST_LOSS_SECONDS) for at in drills]
    return drills + [at for at in real if not any(a <= at <= b for a, b in of_drills)]


def _injected_at(lines: Sequence[JournalLine]) -> Iterator[float]:
    """When the first fault was injected into each target."""
    seen: set[str] = set()
    for line in lines:
        if _is(line, InjectFault, Phase.INTENT) and line.detail["primary"] not in seen:
            seen.add(line.detail["primary"])
            yield line.at


def _continues(current: Sequence[JournalLine], line: JournalLine) -> bool:
    """Whether it is the same fault again, because the first one may not have landed."""
    return bool(current) and current[0].detail["primary"] == line.detail["primary"]


def _is(line: JournalLine, step: type[DrillStep], phase: Phase) -> bool:
    return line.step == step.name and line.phase is phase
