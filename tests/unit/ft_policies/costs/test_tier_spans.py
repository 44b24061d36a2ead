"""When a stream was in which tier, while it ran."""

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from holdfast.ft_policies.costs.tier_spans import TierRequest, count_switches, tier_spans
from holdfast.ft_policies.tiers import Tier
from tests.waiting import cpu_seconds_at_most

ONE = ((0.0, 100.0),)
TWO = ((0.0, 100.0), (0.0, 100.0))
PASSIVE, DEPLOYED, COLD, ACTIVE = (
    Tier.PASSIVE_REPLICATION,
    Tier.DEPLOYED,
    Tier.PASSIVE_STANDBY_COLD,
    Tier.ACTIVE_REPLICATION,
)


def asked(tier: Tier, at: float, reached_at: float | None = None) -> TierRequest:
    return TierRequest(tier=tier, at=at, reached_at=reached_at)


def spans(
    *changes: TierRequest, lives: tuple[tuple[float, float], ...] = TWO
) -> list[tuple[Tier, float, float]]:
    covered = tier_spans(changes, lives, from_at=0.0, to_at=100.0)
    return [(span.tier, span.from_at, span.to_at) for span in covered]


def test_one_tier_all_the_time() -> None:
    assert spans(asked(PASSIVE, -5.0, 0.0), lives=ONE) == [(PASSIVE, 0.0, 100.0)]
    assert spans(asked(ACTIVE, -5.0, -1.0)) == [(ACTIVE, 0.0, 100.0)]


def test_a_step_up_counts_from_when_it_was_reached_and_before_as_what_is_there() -> None:
    covered = spans(
        asked(PASSIVE, 0.0, 0.0), asked(ACTIVE, 10.0, 30.0), lives=((0, 100), (15, 100))
    )
    assert covered == [(PASSIVE, 0.0, 15.0), (DEPLOYED, 15.0, 30.0), (ACTIVE, 30.0, 100.0)]


def test_a_step_up_that_was_only_wanted_costs_nothing() -> None:
    """T11: the tier was wanted for six minutes of twelve, and a second driver lived for two and a half."""
    lives = ((0.0, 720.0), (400.0, 550.0))
    covered = tier_spans(
        [asked(PASSIVE, 0.0, 0.0), asked(ACTIVE, 360.0)], lives, from_at=0, to_at=720
    )
    assert [(span.tier, span.seconds) for span in covered] == [
        (PASSIVE, 400.0), (DEPLOYED, 150.0), (PASSIVE, 170.0)
    ]  # fmt: skip


def test_a_tier_without_its_secondary_is_passive_replication() -> None:
    covered = spans(asked(ACTIVE, 0.0, 5.0), lives=((0.0, 100.0), (0.0, 40.0), (60.0, 100.0)))
    assert covered == [
        (DEPLOYED, 0.0, 5.0),
        (ACTIVE, 5.0, 40.0),
        (PASSIVE, 40.0, 60.0),
        (ACTIVE, 60.0, 100.0),
    ]


def test_a_step_down_counts_from_when_it_was_reached() -> None:
    covered = spans(asked(ACTIVE, 0.0, 0.0), asked(COLD, 10.0, 30.0))
    assert covered == [(ACTIVE, 0.0, 30.0), (COLD, 30.0, 100.0)]


def test_a_step_down_under_way_costs_what_is_still_there() -> None:
    assert spans(asked(ACTIVE, 0.0, 0.0), asked(PASSIVE, 10.0)) == [(ACTIVE, 0.0, 100.0)]


def test_a_step_down_that_was_overtaken_never_happened() -> None:
    covered = spans(asked(ACTIVE, 0.0, 0.0), asked(PASSIVE, 10.0), asked(COLD, 20.0, 40.0))
    assert covered == [(ACTIVE, 0.0, 40.0), (COLD, 40.0, 100.0)]


def test_a_secondary_that_outlives_its_tier_still_costs() -> None:
    covered = spans(asked(ACTIVE, 0.0, 0.0), asked(PASSIVE, 10.0, 30.0), lives=((0, 100), (0, 50)))
    assert covered == [(ACTIVE, 0.0, 30.0), (DEPLOYED, 30.0, 50.0), (PASSIVE, 50.0, 100.0)]


def test_a_stopped_stream_has_no_spans() -> None:
    assert spans(asked(PASSIVE, 0.0), lives=ONE) == [(PASSIVE, 0.0, 100.0)]
    assert spans(asked(PASSIVE, 0.0), lives=()) == []
    assert spans() == []


def test_one_replica_after_the_other_is_one_running_stream() -> None:
    lives = ((70.0, 200.0), (-10.0, 30.0), (30.0, 40.0))
    covered = spans(asked(PASSIVE, -20.0), lives=lives)
    assert covered == [(PASSIVE, 0.0, 40.0), (PASSIVE, 70.0, 100.0)]


def test_switches_are_counted_when_they_are_reached() -> None:
    requests = [
        asked(PASSIVE, 0.0, 0.0), asked(ACTIVE, 10.0, 30.0), asked(PASSIVE, 40.0), asked(COLD, 50.0, 60.0)
    ]  # fmt: skip
    assert count_switches(requests, since=0.0, until=100.0) == 2
    assert count_switches(requests, since=30.0, until=60.0) == 1
    assert count_switches([], since=0.0, until=100.0) == 0


def test_ten_thousand_replicas_take_less_than_a_second() -> None:
    """A year of a stream that is recovered each hour."""
    lives = [(float(hour), hour + 1.5) for hour in range(10_000)]
    with cpu_seconds_at_most(1.0):
        covered = tier_spans([asked(ACTIVE, 0.0, 0.0)], lives, from_at=0.0, to_at=10_000.0)
    assert [(span.tier, span.seconds) for span in covered[:3]] == [
        (PASSIVE, 1.0), (ACTIVE, 0.5), (PASSIVE, 0.5)
    ]  # fmt: skip
    assert len(covered) == 19_999


@given(
    st.lists(st.tuples(st.sampled_from(list(Tier)), st.none() | st.floats(0.0, 90.0)), min_size=1),
    st.lists(st.tuples(st.floats(-50.0, 150.0), st.floats(0.0, 60.0))),
)
def test_spans_are_in_order_and_cover_the_lives_exactly(
    changes: list[tuple[Tier, float | None]], lives: list[tuple[float, float]]
) -> None:
    times = [100.0 * number / len(changes) for number in range(len(changes))]
    history = [
        asked(tier, at, None if took is None else at + took)
        for (tier, took), at in zip(changes, times, strict=True)
    ]
    periods = [(start, start + length) for start, length in lives]
    covered = tier_spans(history, periods, from_at=0.0, to_at=100.0)
    assert all(span.from_at < span.to_at for span in covered)
    assert all(a.to_at <= b.from_at for a, b in pairwise(covered))
    everything = tier_spans([asked(PASSIVE, 0.0)], periods, from_at=0.0, to_at=100.0)
    assert sum(span.seconds for span in covered) == pytest.approx(
        sum(span.seconds for span in everything)
    )
