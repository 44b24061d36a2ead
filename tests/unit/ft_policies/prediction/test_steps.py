"""What a recovery consists of, tier by tier, in whatever shape the caller has its numbers."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from holdfast.ft_policies.prediction.steps import (
    STEPS,
    TIERS,
    Load,
    RecoveryStep,
    StepSeconds,
    recovery_seconds,
    rows_since_state,
)
from holdfast.ft_policies.tiers import Tier

MEASURED = StepSeconds(
    detect=1.0, deploy=10.0, read_snapshot=3.0, wire_receive=2.0, wire_send=0.5, replay=4.0
)
LOAD = Load(
    rows_per_second=100.0, capacity_rows_per_second=400.0, state_bytes=1e6, epoch_seconds=1.0
)
SECONDS = st.floats(0, 1e4)
ANY_STEPS = st.builds(
    StepSeconds,
    detect=SECONDS,
    deploy=SECONDS,
    read_snapshot=SECONDS,
    wire_receive=SECONDS,
    wire_send=SECONDS,
    replay=SECONDS,
)


def test_each_tier_pays_for_what_it_has_not_done_beforehand() -> None:
    expected = {
        Tier.ACTIVE_REPLICATION: 0.0,
        Tier.ACTIVE_STANDBY: 1.0 + 0.5 + 4.0,
        Tier.PASSIVE_STANDBY_HOT: 1.0 + 0.5 + 4.0,
        Tier.PASSIVE_STANDBY_COLD: 1.0 + 2.0 + 4.0,
        Tier.DEPLOYED: 1.0 + 3.0 + 2.0 + 4.0,
        Tier.PASSIVE_REPLICATION: 1.0 + 10.0 + 3.0 + 2.0 + 4.0,
    }
    assert dict(zip(TIERS, recovery_seconds(MEASURED), strict=True)) == expected


def test_a_gap_is_not_replayed() -> None:
    assert recovery_seconds(MEASURED, precise=False).tolist() == [0.0, 1.5, 1.5, 3.0, 6.0, 16.0]


def test_the_thesis_does_not_count_detection() -> None:
    seconds = recovery_seconds(MEASURED, count_detection=False)
    assert seconds.tolist() == [0.0, 4.5, 4.5, 6.0, 9.0, 19.0]


def test_the_guarantee_may_differ_by_stream() -> None:
    both = recovery_seconds(MEASURED, precise=np.array([True, False]))
    assert both.shape == (2, 6)
    assert both[0].tolist() == recovery_seconds(MEASURED).tolist()
    assert both[1].tolist() == recovery_seconds(MEASURED, precise=False).tolist()


@pytest.mark.parametrize(
    ("receive", "send", "charged"),
    [(2.0, 0.5, RecoveryStep.WIRE_RECEIVE), (0.5, 2.0, RecoveryStep.WIRE_SEND)],
)
def test_wires_are_set_up_at_once_and_the_longer_one_is_charged(
    receive: float, send: float, charged: RecoveryStep
) -> None:
    steps = StepSeconds(
        detect=0.0,
        deploy=0.0,
        read_snapshot=0.0,
        wire_receive=receive,
        wire_send=send,
        replay=0.0,
    )
    cold = steps.of_tiers()[TIERS.index(Tier.PASSIVE_STANDBY_COLD)]
    assert cold[STEPS.index(charged)] == 2.0
    assert cold.sum() == 2.0


def test_a_step_may_differ_by_tier_and_by_stream() -> None:
    by_tier = np.arange(6.0)
    steps = StepSeconds(
        detect=by_tier,
        deploy=0.0,
        read_snapshot=np.array([[1.0], [2.0], [3.0]]),
        wire_receive=0.0,
        wire_send=0.0,
        replay=0.0,
    )
    assert recovery_seconds(steps).tolist() == [
        [0.0, 1.0, 2.0, 3.0, 4.0 + more, 5.0 + more] for more in (1.0, 2.0, 3.0)
    ]
    assert steps.of_tiers().shape == (3, 6, 7)


def test_what_is_unknown_is_endless_only_where_it_is_needed() -> None:
    steps = StepSeconds(
        detect=1.0,
        deploy=np.inf,
        read_snapshot=np.inf,
        wire_receive=1.0,
        wire_send=1.0,
        replay=np.inf,
    )
    assert recovery_seconds(steps, precise=False).tolist() == [0.0, 2.0, 2.0, 2.0, np.inf, np.inf]


@given(steps=ANY_STEPS, precise=st.booleans(), detection=st.booleans())
def test_the_sum_of_the_steps_is_the_whole(
    *, steps: StepSeconds, precise: bool, detection: bool
) -> None:
    parts = steps.of_tiers(precise=precise, count_detection=detection)
    whole = recovery_seconds(steps, precise=precise, count_detection=detection)
    assert parts.sum(axis=-1) == pytest.approx(whole)
    assert (parts >= 0).all()


@given(ANY_STEPS)
def test_no_tier_is_slower_than_a_cheaper_one(steps: StepSeconds) -> None:
    assert (np.diff(recovery_seconds(steps)) >= 0).all()


def test_rows_since_the_state_that_a_tier_goes_on_from() -> None:
    rows = rows_since_state(LOAD, snapshot_age_seconds=20.0, sync_age_seconds=5.0)
    assert rows.tolist() == [0.0, 100.0, 500.0, 500.0, 2000.0, 2000.0]


def test_ages_may_be_of_many_intervals_and_streams() -> None:
    streams = Load(
        rows_per_second=np.array([[100.0], [200.0]]),
        capacity_rows_per_second=np.array([[400.0], [400.0]]),
        state_bytes=1e6,
        epoch_seconds=1.0,
    )
    intervals = np.array([5.0, 10.0, 20.0])
    rows = rows_since_state(streams, snapshot_age_seconds=intervals, sync_age_seconds=5.0)
    assert rows.shape == (2, 3, 6)
    assert rows[1, 2, 5] == 200.0 * 20.0
