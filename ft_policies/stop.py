"""The stop playbook: each replica of a stream is asked once to leave, and then waited for.

Somebody may want the stream again while it is stopped; then its replicas are left alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from ft_policies.foreseeing import foresee


@dataclass(frozen=True, slots=True)
class Ask:
    """Turn all switches of a replica off: it finishes its epoch, ships, and leaves."""

    replica: str


@dataclass(frozen=True, slots=True)
class AwaitLeave:
    """Wait for a replica to leave; one that does not in time is ended by force."""

    replica: str


Step: TypeAlias = Ask | AwaitLeave


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveReplica:
    """A replica that has not left, and whether it was asked to."""

    id: str
    primary: bool
    asked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Whether anybody wants the stream to run, and the replicas that it still has."""

    wanted: bool
    live: tuple[LiveReplica, ...]


def next_step(seen: Observed) -> Step | None:
    """The secondary first, which is there to take over; `None` when all have left or should stay."""
    if seen.wanted or not seen.live:
        return None
    first = min(seen.live, key=lambda one: one.primary)
    return AwaitLeave(first.id) if first.asked else Ask(first.id)


def foreseen(seen: Observed) -> list[Step]:
    """All steps of a stop that is asked for now, each taken to succeed."""
    return foresee(replace(seen, wanted=False), next_step, _after)


def _after(seen: Observed, step: Step) -> Observed:
    match step:
        case Ask():
            return replace(seen, live=_asked(seen.live, step.replica))
        case AwaitLeave():
            return replace(seen, live=tuple(one for one in seen.live if one.id != step.replica))


def _asked(live: Iterable[LiveReplica], replica: str) -> tuple[LiveReplica, ...]:
    return tuple(replace(one, asked=True) if one.id == replica else one for one in live)
