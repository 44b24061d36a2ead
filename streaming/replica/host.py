"""The load of the host, for a secondary that runs on spare capacity only."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from holdfast.configs.declarations.stream import Secondary
from holdfast.ft_policies.driver import Pause, SpareCapacityPolicy
from holdfast.resources.clock import SYSTEM_CLOCK, Clock

LOOK_SECONDS = 1.0

log = logging.getLogger(__name__)


def host_load() -> float:
    """The share of the host's CPU time that was busy since the last call."""
    return psutil.cpu_percent(interval=None) / 100.0


@dataclass
class SpareCapacityGuard:
    """Remembers for how long the host has been busy or calm, and whether processing is paused."""

    policy: SpareCapacityPolicy
    load: Callable[[], float] = host_load
    clock: Clock = SYSTEM_CLOCK
    paused: bool = False
    _looked_at: float = float("-inf")
    _busy_since: float | None = None
    _calm_since: float | None = None

    @classmethod
    def of(cls, secondary: Secondary) -> "SpareCapacityGuard | None":
        """The guard of a stream that declares spare capacity, else `None`."""
        spare = secondary.spare_capacity
        return None if spare is None else cls(spare.policy())

    def is_paused(self, queued_epochs: Callable[[], int]) -> bool:
        """Measure the load every second; `True` while the secondary gives way."""
        now = self.clock.monotonic()
        if now - self._looked_at < LOOK_SECONDS:
            return self.paused
        self._looked_at = now
        load = self.load()
        self._busy_since = _since(self._busy_since, now, load >= self.policy.pause_above)
        self._calm_since = _since(self._calm_since, now, load < self.policy.resume_below)
        decision = self.policy.decide(
            paused=self.paused,
            host_load=load,
            busy_seconds=_seconds(self._busy_since, now),
            calm_seconds=_seconds(self._calm_since, now),
            queued_epochs=queued_epochs(),
        )
        if decision is not None:
            self.paused = isinstance(decision, Pause)
            change = "paused" if self.paused else "resumed"
            log.info("processing %s: %s", change, decision.reason)
        return self.paused


def _since(before: float | None, now: float, holds: bool) -> float | None:  # noqa: FBT001
    if not holds:
        return None
    return now if before is None else before


def _seconds(since: float | None, now: float) -> float:
    return 0.0 if since is None else now - since
