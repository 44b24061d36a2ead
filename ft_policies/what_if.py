"""What a stream would have with another objective: a point of the curve of cost against objective."""

from dataclasses import dataclass

from ft_policies.tiers import Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """What a stream would have, and pay for fault tolerance, if it had to be back in so many seconds."""

    objective_seconds: float
    tier: Tier
    """The cheapest that holds it with the stream's margin; if none does, the fastest."""
    seconds: float
    """How long a recovery is predicted to take there; infinite if that is not known."""
    money_per_hour: float
    """What it adds to the primary's bill."""
    weighted: float
    """The same in the thesis' normalised units."""
    holds: bool
    snapshot_every: float
    sync_every: float
