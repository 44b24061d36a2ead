"""A change of tier in whose middle both replicas are killed at once: `make chaos` in small."""

from pathlib import Path

import pytest

from ft_policies.tiers import Tier
from tests.chaos.blows import in_the_middle
from tests.support.evidence import demand_exact_output
from tests.support.live_stream import NAME, TIERED, a_live_stream

pytestmark = [pytest.mark.e2e, pytest.mark.crowded, pytest.mark.timeout(900)]

WALK = (Tier.ACTIVE_STANDBY, Tier.PASSIVE_REPLICATION)


def test_two_failures_at_once_in_a_change_of_tier_lose_nothing(tmp_path: Path) -> None:
    with a_live_stream(tmp_path, **TIERED, tier=WALK[0]) as stream:
        stream.start()
        in_the_middle(stream, WALK[1], step="AwaitSecondaryEnd", whom="both", delay=0.0)
        changes = stream.world.store.tiers.history(NAME)
        assert [change.tier_to for change in changes] == list(WALK)
        assert all(change.reached_at is not None for change in changes)
        demand_exact_output(stream)
