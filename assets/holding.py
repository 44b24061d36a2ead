"""Does a stream hold its tier, and if not, what is lacking?

A tier is held while what the secondary has on is good for it or for a stronger one: during a change
to a weaker tier it is held all along. How the primary is, is another question.
"""

from dataclasses import dataclass

from ft_policies.health import Health
from ft_policies.playbooks.recover.secondary import SecondaryView
from ft_policies.playbooks.recover.steps import RecoverFacts
from ft_policies.tiers import SECONDARY, Tier
from ft_policies.transitions import ON_ORDER
from streaming.observing import StreamSeen


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """The tier that a stream should have, the one that is covered now, and what explains it."""

    tier: Tier
    covered: Tier
    held: bool
    reason: str


def holding(seen: StreamSeen) -> Holding:
    """Hold what the replicas have on against what the tier needs."""
    return Holding(
        tier=seen.tier,
        covered=seen.covered,
        held=seen.covers_its_tier or not seen.wanted,
        reason=_reason(seen),
    )


def _reason(seen: StreamSeen) -> str:
    if not seen.wanted:
        return f"nobody wants it to run; {seen.tier} applies from the next start on"
    if seen.covers_its_tier:
        return f"{seen.covered} is covered"
    look = seen.secondary_look()
    if look is not None and look.paused and look.health is Health.HEALTHY:
        return f"the secondary is paused, good for {seen.covered} ({look.reason})"
    return f"only {seen.covered} is covered: {_lacking(seen.observed())}"


def _lacking(observed: RecoverFacts) -> str:
    secondary = observed.secondary
    if secondary is None:
        failed = observed.secondary_failures_in_a_row
        return "there is no secondary" + (
            f"; {failed} failed in a row, the last: {observed.last_secondary_failure}"
            if failed
            else ""
        )
    if secondary.health is not Health.HEALTHY:
        return secondary.reason
    return f"{secondary.id} has {_off(secondary, observed.tier)} off"


def _off(secondary: SecondaryView, tier: Tier) -> str:
    missing = SECONDARY[tier].on() - secondary.observed.on()
    return ", ".join(switch.value for switch in ON_ORDER if switch in missing)
