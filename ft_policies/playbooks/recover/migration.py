"""Migrating a stream: another declaration for its replicas, while it runs.

A declaration that is on its way to the replicas is a rollout. The replica that runs it first is the
target: it comes up as a secondary, gets as far as the protocol asks, and is handed the lease. Until then the
old primary has never stopped, so rolling back means only to stop the target.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from holdfast.ft_policies.tiers import OFF, SECONDARY, Switches, Tier


class Protocol(StrEnum):
    """How the lease gets to the target."""

    INTERRUPTION_FREE = "interruption_free"
    """When it has caught up: it processes beside the primary until then."""
    REPLAY = "replay"
    """As soon as little is left to replay, and it replays the rest alone: for a primary that is overloaded."""
    LEGACY = "legacy"
    """The primary stops first, and the target starts from its last snapshot."""


READY: Mapping[Protocol, Switches] = MappingProxyType(
    {
        Protocol.INTERRUPTION_FREE: SECONDARY[Tier.ACTIVE_STANDBY],
        Protocol.REPLAY: SECONDARY[Tier.ACTIVE_STANDBY],
        Protocol.LEGACY: OFF,
    }
)
"""What the target has on when the lease is handed over."""

MOST_BEHIND: Mapping[Protocol, int] = MappingProxyType(
    {Protocol.INTERRUPTION_FREE: 2, Protocol.REPLAY: 4}
)
"""How many committed epochs the target may have yet to compute when it counts as caught up; a replica's
report is a moment old."""
REPLAY_SHARE = 0.5
"""Of the time that a migration has: a target that `replay` has not brought near by then gets the lease as it is."""

GIVING_WAY_SHARE = 0.5
"""Of the time that is left when a target is launched: one that gave way to its primary for so long, and still has
not got its place, does so no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationFacts:
    """A rollout that is under way; `before` is the one that it replaces."""

    rollout: int
    protocol: Protocol
    before: int = 0
    caught_up: bool = False
    """Whether the target has computed as much of what was committed as its protocol asks, and the same."""
    overdue: bool = False
    differs: str | None = None
    """What the target has computed otherwise than the primary, where it should not."""
    failed: str | None = None
    """Why another target would fail, too."""

    @property
    def fault(self) -> str | None:
        """Why it must be rolled back; `None` while all is well."""
        if self.failed is not None:
            return f"the target failed: {self.failed}"
        if self.differs is not None:
            return f"the target computes something else: {self.differs}"
        return "the target had not caught up in time" if self.overdue else None
