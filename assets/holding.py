"""Does a stream hold its tier, and if not, what is lacking?

A tier is held while what the secondary has on is good for it or for a stronger one: during a change
to a weaker tier it is held all along. How the primary is, is another question.
"""

from dataclasses import dataclass

from ft_policies.health import Health
from ft_policies.recovery import Observed, SecondaryLook
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
    enough = seen.covered.strength >= seen.tier.strength
    return Holding(
        tier=seen.tier,
        covered=seen.covered,
        held=enough or not seen.wanted,
        reason=_reason(seen, enough=enough),
    )


def _reason(seen: StreamSeen, *, enough: bool) -> str:
    if not seen.wanted:
        return f"nobody wants it to run; {seen.tier} applies from the next start on"
    if enough:
        return f"{seen.covered} is covered"
    return f"only {seen.covered} is covered: {_lacking(seen.observed())}"


def _lacking(observed: Observed) -> str:
    secondary = observed.secondary
    if secondary is None:
        failed = observed.secondary_failures_in_a_row
        return "there is no secondary" + (
            f"; {failed} failed in a row, the last: {observed.last_secondary_failure}"
            if failed
            else ""
        )
    if secondary.health is not Health.HEALTHY or secondary.paused:
        return secondary.reason
    return f"{secondary.id} has {_off(secondary, observed.tier)} off"


def _off(secondary: SecondaryLook, tier: Tier) -> str:
    missing = SECONDARY[tier].on() - secondary.observed.on()
    return ", ".join(switch.value for switch in ON_ORDER if switch in missing)
