"""The stop playbook: each replica of a stream is asked once to leave, and then waited for.

If the stream is started again while it stops, its remaining replicas are left alone.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveReplica:
    """A replica that has not left, and whether it was asked to leave."""

    id: str
    primary: bool
    asked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StopFacts:
    """Whether the stream should run, and the replicas that it still has."""

    wanted: bool
    live: tuple[LiveReplica, ...]


@dataclass(frozen=True, slots=True)
class RequestExit:
    """Turn all switches of a replica off: it finishes its epoch, ships, and leaves."""

    name: ClassVar = "RequestExit"
    replica: str

    def describe(self) -> str:
        return f"asks {self.replica} to finish its epoch, ship if it is the primary, and leave"

    def after(self, facts: StopFacts) -> StopFacts:
        live = (replace(row, asked=True) if row.id == self.replica else row for row in facts.live)
        return replace(facts, live=tuple(live))


@dataclass(frozen=True, slots=True)
class AwaitExit:
    """Wait for a replica to leave; one that does not leave in time is ended by force."""

    name: ClassVar = "AwaitExit"
    replica: str

    def describe(self) -> str:
        return f"waits until {self.replica} has left, and ends it by force if it does not"

    def after(self, facts: StopFacts) -> StopFacts:
        return replace(facts, live=tuple(row for row in facts.live if row.id != self.replica))


StopStep: TypeAlias = RequestExit | AwaitExit


def next_step(facts: StopFacts) -> StopStep | None:
    """The next step: the secondary leaves first, so that it does not take over; `None` at the end."""
    if facts.wanted or not facts.live:
        return None
    first = min(facts.live, key=lambda replica: replica.primary)
    return AwaitExit(first.id) if first.asked else RequestExit(first.id)
