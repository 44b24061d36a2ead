"""Reads drills from the journal: the open one, and when the stream was disturbed."""

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
from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.records import IncidentSubject, JournalLine, Phase
from holdfast.resources.project import Project


@dataclass(frozen=True, slots=True)
class OpenDrill:
    """A drill without a report yet: its lines, the intent to inject the fault first."""

    lines: Sequence[JournalLine]

    @property
    def at(self) -> float:
        """The time of its beginning."""
        return self.lines[0].at

    @property
    def primary(self) -> str:
        """The target of the fault."""
        return str(self._intent["primary"])

    @property
    def fault(self) -> Fault:
        return Fault(self._intent["fault"])

    @property
    def tier(self) -> Tier:
        """The tier that was covered when it began."""
        return Tier(self._intent["tier"])

    @property
    def predicted_seconds(self) -> float | None:
        seconds = self._intent["predicted_seconds"]
        return None if seconds is None else float(seconds)

    def _find_result(self, step: type[DrillStep]) -> dict[str, Any] | None:
        """The journal detail of the last time that a step was done; `None` if it never was."""
        done = [line for line in self.lines if _is(line, step, Phase.DONE)]
        return done[-1].detail if done else None

    @property
    def was_injected(self) -> bool:
        """Whether a run has injected the fault."""
        return self._find_result(InjectFault) is not None

    @property
    def fault_epoch(self) -> int:
        """The last epoch before the fault; 0 if it was not injected."""
        return int((self._find_result(InjectFault) or {}).get("epoch", 0))

    @property
    def blocked_until(self) -> float:
        """When the object store is reachable again after the fault `cut_off`."""
        return float((self._find_result(InjectFault) or {}).get("blocked_until", 0.0))

    @property
    def was_awaited(self) -> bool:
        """Whether a run has waited for the stream to come back."""
        return self._find_result(AwaitBack) is not None

    @property
    def _intent(self) -> dict[str, Any]:
        return self.lines[0].detail


def find_open_drill(lines: Sequence[JournalLine]) -> OpenDrill | None:
    """Find the last drill, unless it was reported or its fault could not be injected."""
    current: list[JournalLine] = []
    for line in lines:
        if _is(line, InjectFault, Phase.INTENT) and not _continues(current, line):
            current = [line]
        elif _is(line, Report, Phase.DONE) or _is(line, InjectFault, Phase.FAILED):
            current = []
        elif current:
            current.append(line)
    return OpenDrill(current) if current else None


def open_drill(project: Project, stream: str, *, at: float) -> OpenDrill | None:
    """Find the drill of a stream that is not finished."""
    since = at - DRILL_WITHIN_SECONDS
    return find_open_drill(project.store.journal.since(stream, PLAYBOOK, at=since))


def find_disturbances(project: Project, stream: str, *, since_at: float) -> list[float]:
    """The times at which a stream was disturbed, by drills and by real failures."""
    lines = project.store.journal.since(stream, PLAYBOOK, at=since_at)
    drills = list(_injected_at(lines))
    failures = [
        incident.opened_at
        for incident in project.store.incidents.of(stream, open_only=False)
        if incident.kind == IncidentKind.RECOVERY
        and incident.subject is IncidentSubject.PRIMARY
        and incident.opened_at >= since_at
    ]
    of_drills = [(at, at + LONGEST_LOSS_SECONDS) for at in drills]
    return drills + [at for at in failures if not any(a <= at <= b for a, b in of_drills)]


def _injected_at(lines: Sequence[JournalLine]) -> Iterator[float]:
    """The time of the first fault for each target."""
    targets: set[str] = set()
    for line in lines:
        if _is(line, InjectFault, Phase.INTENT) and line.detail["primary"] not in targets:
            targets.add(line.detail["primary"])
            yield line.at


def _continues(current: Sequence[JournalLine], line: JournalLine) -> bool:
    """Whether a line repeats the fault of the current drill, because the first one may not have landed."""
    return bool(current) and current[0].detail["primary"] == line.detail["primary"]


def _is(line: JournalLine, step: type[DrillStep], phase: Phase) -> bool:
    return line.step == step.name and line.phase is phase
