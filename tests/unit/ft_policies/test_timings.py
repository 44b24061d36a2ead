"""Periods that replicas, sensors and playbooks share agree with each other."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from holdfast.ft_policies.timings import TimingError, Timings

DECLARED = Timings.derive(heartbeat=0.5, lease=3.0, stuck_after=60.0, start_within=120.0)
SECONDS = st.floats(0.01, 3600.0)


def test_a_lease_of_less_than_two_heartbeats_is_refused() -> None:
    with pytest.raises(TimingError, match=r"at least two heartbeats \(4 s\)") as refused:
        Timings.derive(heartbeat=2.0, lease=3.9, stuck_after=60.0, start_within=120.0)
    assert refused.value.field == "lease"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"secondary_lease_seconds": 2.9}, "secondary_lease"),
        ({"dispatch_seconds": 3.4}, "dispatch"),
        ({"leave_within_seconds": 60.0}, "leave_within"),
    ],
)
def test_a_wait_that_is_shorter_than_what_it_waits_for_is_refused(
    changes: dict[str, float], field: str
) -> None:
    with pytest.raises(TimingError) as refused:
        replace(DECLARED, **changes)
    assert refused.value.field == field


@given(heartbeat=SECONDS, leases=st.floats(2.0, 100.0), stuck_after=SECONDS, start_within=SECONDS)
def test_whatever_is_declared_the_derived_periods_agree(
    heartbeat: float, leases: float, stuck_after: float, start_within: float
) -> None:
    timings = Timings.derive(
        heartbeat=heartbeat,
        lease=leases * heartbeat,
        stuck_after=stuck_after,
        start_within=start_within,
    )
    assert timings.detect_seconds < timings.takeover_within_seconds
    assert timings.dispatch_seconds < timings.relaunch_within_seconds
    assert timings.progress_within_seconds > max(stuck_after, start_within)
