"""When a secondary takes over by itself."""

import pytest
from hypothesis import given, strategies as st

from holdfast.ft_policies.health import (
    DetectedBy,
    FailoverPolicy,
    PrimaryView,
    Process,
    Stay,
    TakeOver,
)

POLICY = FailoverPolicy(lease_seconds=3.0)


def a_look(
    id: str | None = "words-1",  # noqa: A002
    *,
    process: Process = Process.RUNNING,
    holds_lease: bool = True,
    silent_seconds: float = 0.4,
) -> PrimaryView:
    return PrimaryView(
        id=id, process=process, holds_lease=holds_lease, silent_seconds=silent_seconds
    )


@pytest.mark.parametrize(
    ("look", "by"),
    [
        (a_look(id=None, process=Process.UNKNOWN, holds_lease=False), DetectedBy.ABSENCE),
        (a_look(process=Process.GONE), DetectedBy.PROCESS),
        (a_look(process=Process.GONE, holds_lease=False), DetectedBy.PROCESS),
        (a_look(silent_seconds=3.0), DetectedBy.LEASE),
        (a_look(process=Process.UNKNOWN, silent_seconds=9.0), DetectedBy.LEASE),
    ],
)
def test_a_primary_that_is_gone_or_silent_is_replaced(look: PrimaryView, by: DetectedBy) -> None:
    decision = POLICY.decide(look)
    assert isinstance(decision, TakeOver)
    assert decision.detected_by is by


@pytest.mark.parametrize(
    "look",
    [
        a_look(),
        a_look(silent_seconds=2.9),
        a_look(process=Process.UNKNOWN, silent_seconds=2.9),
        a_look(holds_lease=False, silent_seconds=100.0),
    ],
)
def test_a_primary_that_lives_or_starts_is_left_alone(look: PrimaryView) -> None:
    assert isinstance(POLICY.decide(look), Stay)


@given(
    process=st.sampled_from([Process.RUNNING, Process.UNKNOWN]),
    holds_lease=st.booleans(),
    silent=st.floats(0, 2.999),
)
def test_no_replica_takes_over_within_the_lease(
    *, process: Process, holds_lease: bool, silent: float
) -> None:
    look = a_look(process=process, holds_lease=holds_lease, silent_seconds=silent)
    assert isinstance(POLICY.decide(look), Stay)
