"""Whether the replicas of a stream cover its tier, and if not, what is missing.

A tier is covered while the switches that the secondary has on are those of this tier or of a stronger one:
during a change to a weaker tier it stays covered. The health of the primary does not count.
"""

from dataclasses import dataclass

from holdfast.ft_policies.health import Health
from holdfast.ft_policies.playbooks.recover.secondary import SecondaryView
from holdfast.ft_policies.playbooks.recover.steps import RecoverFacts
from holdfast.ft_policies.tiers import ON_ORDER, SECONDARY, Tier
from holdfast.observation.status import StreamStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class TierCoverage:
    """The tier that a stream should have, the tier that its replicas cover now, and why."""

    tier: Tier
    covered_tier: Tier
    covered: bool
    """Whether the replicas cover the tier; true of a stream that should not run."""
    reason: str


def coverage_of(status: StreamStatus) -> TierCoverage:
    """Compare the switches that the replicas have on with those that the tier needs."""
    return TierCoverage(
        tier=status.tier,
        covered_tier=status.covered,
        covered=status.covers_its_tier or not status.wanted,
        reason=_reason(status),
    )


def _reason(status: StreamStatus) -> str:
    if not status.wanted:
        return f"the stream is stopped; {status.tier} applies from the next start"
    if status.covers_its_tier:
        return f"{status.covered} is covered"
    view = status.secondary_view()
    if view is not None and view.paused and view.health is Health.HEALTHY:
        return f"the secondary is paused and covers {status.covered} ({view.reason})"
    return f"only {status.covered} is covered: {_missing(status.recover_facts())}"


def _missing(facts: RecoverFacts) -> str:
    secondary = facts.secondary
    if secondary is None:
        failed = facts.secondary_failures_in_a_row
        return "there is no secondary" + (
            f"; {failed} failed in a row, the last: {facts.last_secondary_failure}"
            if failed
            else ""
        )
    if secondary.health is not Health.HEALTHY:
        return secondary.reason
    return f"{secondary.id} has {_off(secondary, facts.tier)} off"


def _off(secondary: SecondaryView, tier: Tier) -> str:
    missing = SECONDARY[tier].on() - secondary.observed.on()
    return ", ".join(switch.value for switch in ON_ORDER if switch in missing)
