"""The facts of a migration: a new declaration for the replicas of a stream, while it runs.

Migrations of a stream are numbered. The first replica that runs the new declaration is the target:
it starts as a secondary, comes as near to the primary as the protocol requires, and gets the lease. Until then
the old primary has not stopped, so a rollback only stops the target.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from holdfast.ft_policies.tiers import OFF, SECONDARY, Switches, Tier


class Protocol(StrEnum):
    """When the target gets the lease."""

    INTERRUPTION_FREE = "interruption_free"
    """When it has caught up; until then it processes beside the primary."""
    REPLAY = "replay"
    """When little is left to replay; it replays the rest alone: for an overloaded primary."""
    LEGACY = "legacy"
    """The primary stops first, and the target starts from its last snapshot."""


READY: Mapping[Protocol, Switches] = MappingProxyType(
    {
        Protocol.INTERRUPTION_FREE: SECONDARY[Tier.ACTIVE_STANDBY],
        Protocol.REPLAY: SECONDARY[Tier.ACTIVE_STANDBY],
        Protocol.LEGACY: OFF,
    }
)
"""The switches that the target has on when it gets the lease."""

MOST_BEHIND: Mapping[Protocol, int] = MappingProxyType(
    {Protocol.INTERRUPTION_FREE: 2, Protocol.REPLAY: 4}
)
"""How many committed epochs the target may lack and still count as caught up; reports lag a little."""
REPLAY_SHARE = 0.5
"""The share of the time of a migration after which a `replay` target gets the lease wherever it is."""

GIVING_WAY_SHARE = 0.5
"""The share of the time left at the launch of a target during which it gives way to its primary; after that it
no longer does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationFacts:
    """A migration that is under way; `before` is the number of the one before it."""

    number: int
    protocol: Protocol
    before: int = 0
    caught_up: bool = False
    """Whether the target has computed as many committed epochs as its protocol requires, with equal results."""
    overdue: bool = False
    differs: str | None = None
    """Where the target has other results than the primary, if it must not differ."""
    failed: str | None = None
    """Why the target failed, if another one would fail, too."""

    @property
    def fault(self) -> str | None:
        """Why it must be rolled back; `None` if it need not."""
        if self.failed is not None:
            return f"the target failed: {self.failed}"
        if self.differs is not None:
            return f"the target computes other results: {self.differs}"
        return "the target did not catch up in time" if self.overdue else None
