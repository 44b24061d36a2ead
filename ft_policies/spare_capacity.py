"""Secondaries on capacity that is paid for anyway: they give way when the host needs it.

A paused secondary no longer processes; its state is refreshed by syncs, which also shortens its
queue. Two thresholds and a dwell keep it from going back and forth.
"""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Pause:
    """Stop processing and follow by syncs."""

    reason: str


@dataclass(frozen=True, slots=True)
class Resume:
    """Process again."""

    reason: str


SpareCapacityDecision: TypeAlias = Pause | Resume | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpareCapacityPolicy:
    """How loaded the host, or how long the queue, may be for a secondary to go on processing."""

    pause_above: float
    resume_below: float
    after_seconds: float
    queue_epochs: int

    def decide(
        self,
        *,
        paused: bool,
        host_load: float,
        busy_seconds: float,
        calm_seconds: float,
        queued_epochs: int,
    ) -> SpareCapacityDecision:
        """Decide whether to change; `None` means no change.

        `busy_seconds` is for how long the load (0 to 1) has been at `pause_above` or more,
        `calm_seconds` for how long below `resume_below`.
        """
        if paused:
            return self._resume(host_load, calm_seconds, queued_epochs)
        if queued_epochs > self.queue_epochs:
            return Pause(f"{queued_epochs} epochs queue, more than {self.queue_epochs}")
        if host_load >= self.pause_above and busy_seconds >= self.after_seconds:
            return Pause(f"the host has been busy ({host_load:.0%}) for {busy_seconds:.0f} s")
        return None

    def _resume(self, host_load: float, calm_seconds: float, queued_epochs: int) -> Resume | None:
        """Resume on a calm host, unless the queue would have it paused again at once."""
        calm = host_load < self.resume_below and calm_seconds >= self.after_seconds
        if not calm or queued_epochs > self.queue_epochs:
            return None
        return Resume(f"the host has been calm ({host_load:.0%}) for {calm_seconds:.0f} s")
