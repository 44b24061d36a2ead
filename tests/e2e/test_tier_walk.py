"""A short walk over changes of tier, with kills in the middle of each: `make chaos` in small."""

from pathlib import Path

import pytest

from ft_policies.tiers import Tier
from tests.chaos.blows import in_the_middle
from tests.support.evidence import demand_exact_output
from tests.support.live_stream import NAME, TIERED, a_live_stream

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

WALK = (
    Tier.PASSIVE_STANDBY_COLD,
    Tier.ACTIVE_STANDBY,
    Tier.PASSIVE_STANDBY_HOT,
    Tier.PASSIVE_REPLICATION,
)


def test_a_walk_over_changes_of_tier_with_kills_ends_with_an_exact_output(tmp_path: Path) -> None:
    with a_live_stream(tmp_path, **TIERED, tier=WALK[0]) as stream:
        stream.start()
        in_the_middle(stream, WALK[1], step="TurnSwitch", whom="secondary", delay=0.1)
        in_the_middle(stream, WALK[2], step="TurnSwitch", whom="primary", delay=0.1)
        in_the_middle(stream, WALK[3], step="AwaitSecondaryEnd", whom="both", delay=0.0)
        changes = stream.world.store.tiers.history(NAME)
        assert [change.tier_to for change in changes] == list(WALK)
        assert all(change.reached_at is not None for change in changes)
        demand_exact_output(stream)
