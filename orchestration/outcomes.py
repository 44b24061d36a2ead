"""How a recovery went: when the stream was level again, and when its tier was held again.

Several runs, and the secondary that took over, may each have done a part of it. So the times come
from what all of them wrote, not from what the last run did.
"""

from dataclasses import dataclass

from ft_policies.recovery import AwaitLevel
from ft_policies.tiers import Tier
from orchestration.incidents import is_of_secondary
from resources.control.records import Incident, Phase
from streaming.world import World

RECOVERY_SAMPLE = "recovery_seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryOutcome:
    """How long a recovery took, counted from the last sign of life.

    `recovery_seconds` ends when the stream was level; it is `None` if it never stopped.
    `redundancy_seconds` ends when the tier was held again.
    """

    detect_seconds: float
    recovery_seconds: float | None
    redundancy_seconds: float
    tier: Tier

    @property
    def sentence(self) -> str:
        """The outcome in words."""
        held = f"{self.tier} held again after {self.redundancy_seconds:.1f} s"
        if self.recovery_seconds is None:
            return held
        recovered = f"recovered {self.recovery_seconds:.1f} s after the last sign of life"
        return recovered if self.tier is Tier.PASSIVE_REPLICATION else f"{recovered}, {held}"


def outcome_of(world: World, incident: Incident) -> RecoveryOutcome:
    """The outcome of an incident whose stream has just become well."""
    detect = float(incident.detail.get("t_detect_seconds") or 0.0)
    until_now = detect + world.store.now() - incident.opened_at
    row = world.store.streams.get(incident.stream)
    recovery = None if is_of_secondary(incident) else _level_after(world, incident, detect)
    if recovery is None and not is_of_secondary(incident):
        recovery = until_now
    return RecoveryOutcome(
        detect_seconds=detect,
        recovery_seconds=recovery,
        redundancy_seconds=until_now,
        tier=Tier.PASSIVE_REPLICATION if row is None else row.tier,
    )


def _level_after(world: World, incident: Incident, detect_seconds: float) -> float | None:
    """What a replica that took over measured, or else when the wait for a new one ended."""
    failed_at = incident.opened_at - detect_seconds
    samples = world.store.samples.series(incident.stream, RECOVERY_SAMPLE, since_at=failed_at)
    if samples:
        return samples[-1].value
    waited = [
        line.at
        for line in world.store.journal.of(incident.stream)
        if line.incident == incident.id
        and line.step == AwaitLevel.__name__
        and line.phase is Phase.DONE
    ]
    return detect_seconds + waited[-1] - incident.opened_at if waited else None
