"""The review on a live stream: it gets the tier that its objective needs, and survives a kill in it."""

import signal
from math import isfinite
from pathlib import Path

import pytest

from ft_policies.tiers import Tier
from orchestration.minding import due_switches
from orchestration.reviewing import decide_now, what_if
from tests.support.evidence import demand_exact_output
from tests.support.live_stream import NAME, TIERED, a_live_stream

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

AUTO = {
    "mode": "auto",
    "cool_down": "1s",
    "dwell": "1h",
    "snapshot_every": {"min": "2s", "max": "20s"},
}


def test_a_stream_gets_the_tier_that_its_objective_needs(tmp_path: Path) -> None:
    changes = {**TIERED, "checkpoint": {"every": "2s"}, "controller": AUTO}
    with a_live_stream(tmp_path, **changes, objective={"recovery_time": "1s"}) as stream:
        stream.start()
        stream.await_epoch(stream.epoch() + 3)
        [due] = due_switches(stream.world)
        assert due.decision.chosen is Tier.ACTIVE_REPLICATION
        stream.switch(due.decision.chosen)
        stream.await_tier(Tier.ACTIVE_REPLICATION)
        assert due_switches(stream.world) == []
        secondary = stream.secondary()
        stream.signal(signal.SIGKILL)
        stream.await_takeover(secondary)
        made = decide_now(stream.world, NAME)
        assert float(made.load.rows_per_second) > 1000
        assert all(isfinite(one.seconds) and one.money_per_hour > 0 for one in made.tiers)
        easy = what_if(stream.world, NAME, [3600.0])[0]
        assert (easy.tier, easy.snapshot_every) == (Tier.PASSIVE_REPLICATION, 20.0)
        demand_exact_output(stream, both_send=True)
