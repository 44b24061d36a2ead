"""The recovery after the kill: read from incidents, journal, replicas and ledger."""

from dataclasses import dataclass
from typing import Any

from holdfast.ft_policies.playbooks.recover.steps import AwaitCatchUp
from holdfast.orchestration.playbooks.recover import Recover
from holdfast.resources.control_store.records import (
    Incident,
    JournalLine,
    LedgerEntry,
    Phase,
    ReplicaRow,
    Slot,
)
from holdfast.resources.project import Project


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The recovery so far; durations count from the kill."""

    killed: str
    killed_at: float
    incident: Incident | None
    lines: list[JournalLine]
    successor: ReplicaRow | None
    first_commit: LedgerEntry | None
    new_epochs: int

    @property
    def caught_up_at(self) -> float | None:
        """When the new primary had caught up."""
        times = [
            line.at
            for line in self.lines
            if line.step == AwaitCatchUp.name and line.phase is Phase.DONE and not line.failure
        ]
        return times[-1] if times else None

    def after(self, at: float | None) -> float | None:
        """Seconds from the kill to this time."""
        return None if at is None else max(at - self.killed_at, 0.0)

    @property
    def recovered_seconds(self) -> float | None:
        """From the kill until the new primary had committed a new epoch."""
        return self.after(None if self.first_commit is None else self.first_commit.committed_at)

    def seconds(self) -> dict[str, float | None]:
        """The seconds from the kill to each milestone, by its JSON name."""
        return {
            "detected": self.after(None if self.incident is None else self.incident.opened_at),
            "run_at_work": self.after(self.lines[0].at if self.lines else None),
            "launched": self.after(
                None if self.successor is None else self.successor.registered_at
            ),
            "first_new_epoch": self.recovered_seconds,
            "caught_up": self.after(self.caught_up_at),
            "recovered": self.recovered_seconds,
        }

    def as_dict(self) -> dict[str, Any]:
        """The recovery as JSON fields."""
        return {
            "killed": self.killed,
            "killed_at": self.killed_at,
            "incident": self.incident and self.incident.id,
            "successor": self.successor and self.successor.id,
            "seconds": self.seconds(),
            "steps": [line_facts(line) for line in self.lines if line.phase is Phase.DONE],
        }


def line_facts(line: JournalLine) -> dict[str, Any]:
    """A journal line as the JSON fields of its step."""
    facts = {"step": line.step, "seconds": line.seconds, "result": line.detail}
    return {**facts, "failed": line.failure} if line.failure else facts


def read_timeline(project: Project, stream: str, killed: ReplicaRow, killed_at: float) -> Timeline:
    """Read the recovery of a stream so far."""
    store = project.store
    incidents = store.incidents.of(stream, open_only=False)
    since = [incident for incident in incidents if incident.opened_at >= killed_at]
    newer = [
        row
        for row in store.replicas.of(stream, live=False)
        if row.slot is Slot.PRIMARY and row.registered_at > killed.registered_at
    ]
    successor = newer[0] if newer else None
    first = 0 if killed.epoch is None else killed.epoch
    last = store.ledger.last(stream)
    entries = store.ledger.between(stream, first, first if last is None else last.epoch)
    own = [e for e in entries if successor is not None and e.replica == successor.id]
    return Timeline(
        killed=killed.id,
        killed_at=killed_at,
        incident=since[-1] if since else None,
        lines=[line for line in store.journal.of(stream) if _belongs(line, killed_at)],
        successor=successor,
        first_commit=own[0] if own else None,
        new_epochs=len(own),
    )


def _belongs(line: JournalLine, killed_at: float) -> bool:
    return line.playbook == Recover.name and line.at >= killed_at
