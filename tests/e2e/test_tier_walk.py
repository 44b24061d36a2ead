"""A short walk over changes of tier, with kills in between and in the middle: `make chaos` in small."""

from itertools import pairwise
from pathlib import Path

import pytest

from ft_policies.tiers import Tier
from tests.chaos.blows import change, in_the_middle, kill_both, kill_primary
from tests.chaos.circuit import chance_of
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
    chance = chance_of(7)
    with a_live_stream(tmp_path, **TIERED, tier=WALK[0]) as stream:
        stream.start()
        up, over, down = pairwise(WALK)
        in_the_middle(stream, up[1], delay=0.1, step="TurnSwitch", whom="primary")
        change(stream, over[1])
        kill_primary(stream, over[1], chance)
        in_the_middle(stream, down[1], delay=0.0, step="AwaitSecondaryEnd", whom="both")
        kill_both(stream, down[1], chance)
        changes = stream.world.store.tiers.history(NAME)
        assert [step.tier_to for step in changes] == list(WALK)
        assert all(step.reached_at is not None for step in changes)
        demand_exact_output(stream)
