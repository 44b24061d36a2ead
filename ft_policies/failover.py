"""When a secondary takes over: the primary's process is gone, or its lease is no longer renewed.

Silence is measured by the secondary's own clock between its own observations, so clocks that are off by
minutes neither cause a takeover nor prevent one.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from ft_policies.health import Process


class DetectedBy(StrEnum):
    """How a secondary detected the failure."""

    ABSENCE = "absence"
    PROCESS = "process"
    LEASE = "lease"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimaryLook:
    """The primary as its secondary observes it; `id` is `None` if there is no live primary."""

    id: str | None
    process: Process
    holds_lease: bool
    silent_seconds: float


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Become the primary."""

    reason: str
    detected_by: DetectedBy


@dataclass(frozen=True, slots=True)
class Stay:
    """Remain the secondary."""

    reason: str


FailoverDecision: TypeAlias = TakeOver | Stay


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverPolicy:
    """How long a primary may be silent before its secondary takes over."""

    lease_seconds: float

    def decide(self, look: PrimaryLook) -> FailoverDecision:
        """Take over from a primary that is gone or silent; wait for one that is starting."""
        if look.id is None:
            return TakeOver("the stream has no primary", DetectedBy.ABSENCE)
        if look.process is Process.GONE:
            return TakeOver(f"the process of {look.id} is gone", DetectedBy.PROCESS)
        if not look.holds_lease:
            return Stay(f"{look.id} has not taken the lease yet")
        if look.silent_seconds >= self.lease_seconds:
            return TakeOver(
                f"{look.id} has not renewed its lease for {look.silent_seconds:.1f} s",
                DetectedBy.LEASE,
            )
        return Stay(f"{look.id} renewed its lease {look.silent_seconds:.1f} s ago")
