"""A secondary on spare capacity gives way and comes back, without going back and forth."""

import pytest
from hypothesis import given, strategies as st

from holdfast.ft_policies.driver import Pause, Resume, SpareCapacityDecision, SpareCapacityPolicy

POLICY = SpareCapacityPolicy(pause_above=0.9, resume_below=0.7, after_seconds=10.0, queue_epochs=30)


def decided(
    load: float, *, paused: bool = False, busy: float = 0.0, calm: float = 0.0, queued: int = 0
) -> SpareCapacityDecision:
    return POLICY.decide(
        paused=paused, host_load=load, busy_seconds=busy, calm_seconds=calm, queued_epochs=queued
    )


@pytest.mark.parametrize(
    ("decision", "kind"),
    [
        (decided(0.95, busy=10.0), Pause),
        (decided(0.95, busy=9.9), type(None)),
        (decided(0.89, busy=60.0), type(None)),
        (decided(0.1, queued=31), Pause),
        (decided(0.1, queued=30), type(None)),
        (decided(0.6, paused=True, calm=10.0), Resume),
        (decided(0.6, paused=True, calm=9.9), type(None)),
        (decided(0.8, paused=True, calm=60.0), type(None)),
        (decided(0.6, paused=True, calm=60.0, queued=31), type(None)),
        (decided(0.95, paused=True, busy=60.0), type(None)),
    ],
)
def test_load_and_queue_decide(decision: SpareCapacityDecision, kind: type) -> None:
    assert type(decision) is kind


@given(st.floats(0, 1), st.floats(0, 100), st.floats(0, 100), st.integers(0, 100))
def test_one_look_never_both_pauses_and_resumes(
    load: float, busy: float, calm: float, queued: int
) -> None:
    pauses = decided(load, busy=busy, calm=calm, queued=queued)
    resumes = decided(load, paused=True, busy=busy, calm=calm, queued=queued)
    assert pauses is None or resumes is None
