"""The recover playbook: from what is seen to the one step that is safe now.

There is no program counter. Whoever performs a step may die before, during or after it; the next
one looks at the world again and goes on from there.
"""

from dataclasses import dataclass
from typing import TypeAlias

from ft_policies.health import Health, Verdict

FAILURES_BEFORE_GIVING_UP = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A stream as one look shows it."""

    verdict: Verdict
    primary: str | None
    token: int
    failures_in_a_row: int = 0
    last_failure: str = ""


@dataclass(frozen=True, slots=True)
class Fence:
    """Take the lease and the slot from a primary that counts as failed."""

    primary: str
    token: int
    reason: str


@dataclass(frozen=True, slots=True)
class Launch:
    """Start a new primary, which restores the newest snapshot by itself."""


@dataclass(frozen=True, slots=True)
class AwaitLevel:
    """Wait until the new primary has worked off what was missed."""

    primary: str


@dataclass(frozen=True, slots=True)
class AwaitEnd:
    """Wait until a primary that was told to stop has stopped."""

    primary: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Stop trying: it fails each time, and somebody must look."""

    reason: str


Step: TypeAlias = Fence | Launch | AwaitLevel | AwaitEnd | GiveUp


def next_step(seen: Observed) -> Step | None:
    """The one step that is safe now, or `None` when the stream is as it should be."""
    health = seen.verdict.health
    match health:
        case Health.HEALTHY | Health.STOPPED:
            return None
        case Health.MISSING:
            if seen.failures_in_a_row >= FAILURES_BEFORE_GIVING_UP:
                return GiveUp(
                    f"{seen.failures_in_a_row} replicas failed in a row: {seen.last_failure}"
                )
            return Launch()
        case Health.DEAD | Health.SILENT | Health.DISPUTED | Health.STUCK:
            return Fence(_named(seen), seen.token, seen.verdict.reason)
        case Health.STARTING | Health.REPLAYING | Health.WAITING:
            return AwaitLevel(_named(seen))
        case Health.STOPPING:
            return AwaitEnd(_named(seen))


def _named(seen: Observed) -> str:
    if seen.primary is None:
        raise ValueError(f"{seen.verdict.health} without a primary: {seen}")
    return seen.primary
