"""Noting that a stream has the tier that was last asked for."""

from ft_policies.health import Health
from resources.control.store import ControlStore
from streaming.observing import StreamSeen


def note_reached(store: ControlStore, seen: StreamSeen) -> None:
    """Stamp the change of tier once nothing is left to do and the tier is covered.

    A secondary that has paused needs nothing and covers less: whoever looks when it goes on notes it.
    """
    well = seen.verdict.health is Health.HEALTHY and seen.covers_its_tier and seen.is_settled
    if well and any(one.reached_at is None for one in store.tiers.history(seen.name, limit=1)):
        store.tiers.reached(seen.name, tier=seen.tier)
